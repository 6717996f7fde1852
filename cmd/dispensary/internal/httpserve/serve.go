// Package httpserve serves HTTP on an address of this machine until a command ends.
package httpserve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/dispensary-go/dispensary/internal/httplimit"
)

// grace is how long running requests may take after the signal to end.
const grace = 3 * time.Second

// Serve answers until ctx ends, and calls ready once it does.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, ready func() error) error {
	server := httplimit.Server(handler)
	// Requests that wait for a delivery end with it.
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if err := ready(); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if server.Shutdown(ending) != nil {
		return server.Close()
	}
	return nil
}

// ListenError names the flag whose address cannot be listened on.
func ListenError(name, addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s %s: the address is in use already", name, addr)
	}
	var listening *net.OpError
	if errors.As(err, &listening) {
		err = listening.Err
	}
	return fmt.Errorf("%s %s: %w", name, addr, err)
}

// Loopback reports whether a host is this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
