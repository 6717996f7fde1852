package listen

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
)

// isLocal reports whether the host of a URL is this machine: a loopback address, localhost, or
// a name below localhost (RFC 6761).
func isLocal(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// direct returns a copy of a transport that connects only to this machine, without a proxy. It
// returns false if the transport is not an [*http.Transport].
func direct(of http.RoundTripper) (*http.Transport, bool) {
	if of == nil {
		of = http.DefaultTransport
	}
	base, is := of.(*http.Transport)
	if !is {
		return nil, false
	}
	made := base.Clone()
	made.Proxy = nil
	made.DialContext = dialLocal
	return made, true
}

// dialLocal connects to a port of this machine. It dials localhost for names below it, because
// some resolvers do not know them. It rejects other machines, because a network resolver could
// return one.
func dialLocal(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err != nil {
		address = net.JoinHostPort("localhost", port)
	}
	dialer := net.Dialer{Control: func(_, to string, _ syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(to); err != nil || !at.Addr().Unmap().IsLoopback() {
			return errors.New("localhost resolves to another machine")
		}
		return nil
	}}
	return dialer.DialContext(ctx, network, address)
}
