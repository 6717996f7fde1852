// Package memhttp carries HTTP requests to handlers in the same process without a socket. It
// keeps the timeouts, cancellation and streaming of a connection. It blocks only on channels,
// condition variables and the time package, so it works inside testing/synctest.
package memhttp

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Address is the source of requests and responses that use no socket. It is reserved for
// documentation.
const Address = "192.0.2.1"

// origin identifies a site by scheme and host.
type origin struct{ scheme, host string }

var defaultPorts = map[string]string{"https": ":443", "http": ":80"}

func originOf(u *url.URL) origin {
	return origin{scheme: u.Scheme, host: strings.TrimSuffix(strings.ToLower(u.Host), defaultPorts[u.Scheme])}
}

// site is a handler on the network.
type site struct {
	handler http.Handler
	own     bool                 // the platform's own, for which Close waits
	tls     *tls.ConnectionState // represents a connection that is private without encryption
}

// Network contains the sites that can be reached without a socket.
type Network struct {
	Context context.Context // parent of the handlers' contexts
	stop    context.CancelFunc
	home    origin // the platform's

	mu      sync.RWMutex
	sites   map[origin]*site
	closed  bool
	running sync.WaitGroup // requests to the platform's own handler
}

// New returns a network without sites.
func New() *Network {
	n := &Network{sites: make(map[origin]*site)}
	n.Context, n.stop = context.WithCancel(context.Background())
	return n
}

func (n *Network) put(at origin, s *site) {
	s.tls = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, ServerName: at.host}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sites[at] = s
}

// Host adds a handler to the network under an origin such as "https://ehr.example.com". It
// replaces an earlier handler of the origin. It rejects the platform's own origin, and URLs
// with more than an origin.
func (n *Network) Host(address string, handler http.Handler) error {
	u, err := url.Parse(address)
	switch {
	case handler == nil:
		return errors.New("no handler")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "":
		return errors.New("not an origin such as https://ehr.example.com")
	case originOf(u) == n.home:
		return errors.New("this is the platform's own address")
	}
	n.put(originOf(u), &site{handler: handler})
	return nil
}

// SetHome adds the platform itself to the network. Plain HTTP also reaches the platform, which
// rejects it.
func (n *Network) SetHome(address string, h http.Handler) {
	u, _ := url.Parse(address) // from our own code, so it is valid
	n.home = originOf(u)
	own := &site{handler: h, own: true}
	n.put(n.home, own)
	n.put(origin{scheme: "http", host: n.home.host}, own)
}

// Close ends every request. It waits only for the platform's own handlers, because the
// integrator's handlers may never return.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.stop()
	n.running.Wait()
}

// enter returns the site of a request, and counts requests to the platform.
func (n *Network) enter(u *url.URL) (*site, func(), error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	found := n.sites[origin{u.Scheme, u.Host}]
	if found == nil {
		found = n.sites[originOf(u)]
	}
	switch {
	case found == nil:
		return nil, nil, nil
	case n.closed:
		return nil, nil, errClosed()
	case !found.own:
		return found, func() {}, nil
	}
	n.running.Add(1)
	return found, n.running.Done, nil
}

// Transport is the network as a RoundTripper. It tries hosted sites first, then Outside.
type Transport struct {
	Network *Network
	Outside http.RoundTripper // nil if there is no other network
}

// RoundTrip implements [http.RoundTripper].
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	found, done, err := t.Network.enter(r.URL)
	switch {
	case err == nil && found == nil && t.Outside != nil:
		return t.Outside.RoundTrip(r)
	case err == nil && found == nil:
		err = &net.OpError{Op: "dial", Net: "memory", Err: &net.DNSError{Err: "no such host", Name: r.URL.Hostname(), IsNotFound: true}}
	case err == nil && r.Context().Err() != nil:
		done()
		err = context.Cause(r.Context())
	}
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // unread
		}
		return nil, err
	}
	return carry(t.Network.Context, found, r, done)
}

// CloseIdleConnections implements the interface behind [http.Client.CloseIdleConnections].
func (t Transport) CloseIdleConnections() {
	if pool, ok := t.Outside.(interface{ CloseIdleConnections() }); ok {
		pool.CloseIdleConnections()
	}
}

// blank is the template of every incoming request.
var blank = new(http.Request)

// incoming returns the request as received by a server. It copies the headers, because a
// handler may run longer than the client's call.
func (w *exchange) incoming(ctx context.Context) *http.Request {
	r, in := w.client, blank.WithContext(ctx)
	in.Method, in.Proto, in.ProtoMajor, in.ProtoMinor = cmp.Or(r.Method, http.MethodGet), "HTTP/1.1", 1, 1
	in.Header, in.Host, in.RemoteAddr, in.RequestURI = r.Header.Clone(), cmp.Or(r.Host, r.URL.Host), Address+":49152", r.URL.RequestURI()
	in.URL = &url.URL{Path: cmp.Or(r.URL.Path, "/"), RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	in.Body, in.ContentLength, in.TransferEncoding = http.NoBody, r.ContentLength, r.TransferEncoding
	if in.Header == nil {
		in.Header = make(http.Header)
	}
	if in.Header["User-Agent"] == nil {
		in.Header["User-Agent"] = []string{"Go-http-client/1.1"}
	}
	if r.URL.Scheme == "https" {
		in.TLS = w.site.tls
	}
	body := &upload{ctx: ctx}
	w.upload = body
	if r.Body != nil && r.Body != http.NoBody {
		if in.ContentLength == 0 {
			in.ContentLength = -1
		}
		body.from, in.Body = r.Body, body
	}
	return in
}

// upload is the handler's view of the client's request body.
type upload struct {
	ctx  context.Context
	from io.ReadCloser
	once sync.Once
	err  error
}

// Read fails once the connection has ended, because the client may already reuse its body.
func (u *upload) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, io.ErrUnexpectedEOF
	}
	return u.from.Read(p)
}

// Close closes the client's body once. Both ends of the connection call it.
func (u *upload) Close() error {
	u.once.Do(func() {
		if u.from != nil {
			u.err = u.from.Close()
		}
	})
	return u.err
}

// CheckURL rejects a URL to which the platform must not send requests or users.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("must be a URL") // the text may contain a secret
	case u.User != nil:
		return fmt.Errorf("%q must not contain a user", u.Scheme+"://"+u.Host)
	case u.Host == "" || u.Scheme == "" || u.Fragment != "":
		return fmt.Errorf("%q is not an absolute URL without a fragment", address)
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("%q must begin with https://, or on loopback with http://", address)
	case u.Scheme == "http" && !IsLoopback(u.Hostname()):
		return fmt.Errorf("%q is plain HTTP and not on loopback", address)
	}
	return nil
}

func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// LoopbackCertificate returns a certificate that is created once per process. Its dates are
// fixed and far apart, so it is valid on every clock, including the clock of a synctest
// bubble.
var LoopbackCertificate = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "dispensarytest"},
		NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
})
