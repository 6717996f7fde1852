package dispensarytest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// memoryAddress is where requests come from that took no socket, and where
// answers come from: an address reserved for documentation.
const memoryAddress = "192.0.2.1"

// receiverOrigin is where [Server.RegisterWebhookHandler] hosts a handler.
const receiverOrigin = "https://receiver.dispensary.test"

// memoryOrigin is where a platform without sockets stands. The names are
// reserved: no resolver knows them.
func memoryOrigin(region Region) string {
	if region == Canada {
		return "https://platform.ca.dispensary.test"
	}
	return "https://platform.us.dispensary.test"
}

// Host puts a server of the integrator's onto the platform's network without a
// socket: [Browser], [Server.HTTPClient] and the webhook sender reach the handler
// under the origin, for example "https://ehr.example.com". A handler that is
// hosted already is replaced.
//
// Each request runs on a goroutine of its own, whose panics look like a dropped
// connection to the other side. Host works with every kind of platform; together
// with [WithInMemory] a whole integration runs inside testing/synctest.
func (s *Server) Host(origin string, handler http.Handler) error {
	u, err := url.Parse(origin)
	switch {
	case handler == nil:
		return errors.New("dispensarytest: Host: no handler")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "":
		return fmt.Errorf("dispensarytest: Host(%q): not an origin such as https://ehr.example.com", origin)
	case originOf(u) == s.net.home:
		return fmt.Errorf("dispensarytest: Host(%q): this is the platform's own address", origin)
	}
	s.net.put(originOf(u), &site{handler: handler})
	return nil
}

// origin names a site: scheme and host.
type origin struct{ scheme, host string }

var defaultPorts = map[string]string{"https": ":443", "http": ":80"}

func originOf(u *url.URL) origin {
	return origin{scheme: u.Scheme, host: strings.TrimSuffix(strings.ToLower(u.Host), defaultPorts[u.Scheme])}
}

// site is a handler on the network.
type site struct {
	handler http.Handler
	own     bool                 // the platform's, which Close waits for
	tls     *tls.ConnectionState // stands for connections that need no encryption to be private
}

// network is everything that can be reached without a socket.
type network struct {
	ctx  context.Context // ends the handlers' contexts
	stop context.CancelFunc
	home origin // the platform's

	mu      sync.RWMutex
	sites   map[origin]*site
	closed  bool
	running sync.WaitGroup // requests to the platform's own handler
}

func newNetwork() *network {
	n := &network{sites: make(map[origin]*site)}
	n.ctx, n.stop = context.WithCancel(context.Background())
	return n
}

func (n *network) put(at origin, s *site) {
	s.tls = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, ServerName: at.host}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sites[at] = s
}

// settle puts the platform itself onto the network. Plain HTTP reaches it too,
// to be refused there.
func (n *network) settle(address string, h http.Handler) {
	u, _ := url.Parse(address) // one of ours
	n.home = originOf(u)
	own := &site{handler: h, own: true}
	n.put(n.home, own)
	n.put(origin{scheme: "http", host: n.home.host}, own)
}

// close ends every request. It waits for the platform's own handlers; those of
// the integrator are not ours to wait for.
func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.stop()
	n.running.Wait()
}

// enter finds the site of a request, and counts the request in.
func (n *network) enter(u *url.URL) (*site, func(), error) {
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

// route is the network as a RoundTripper: hosted sites first, then whatever
// leads outside.
type route struct {
	net     *network
	outside http.RoundTripper // nil: there is nothing else in the world
}

// RoundTrip implements [http.RoundTripper].
func (t route) RoundTrip(r *http.Request) (*http.Response, error) {
	found, done, err := t.net.enter(r.URL)
	switch {
	case err == nil && found == nil && t.outside != nil:
		return t.outside.RoundTrip(r)
	case err == nil && found == nil:
		err = &net.OpError{Op: "dial", Net: "memory", Err: &net.DNSError{Err: "no such host", Name: r.URL.Hostname(), IsNotFound: true}}
	case err == nil && r.Context().Err() != nil:
		done()
		err = context.Cause(r.Context())
	}
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // nothing was read of it
		}
		return nil, err
	}
	return carry(t.net.ctx, found, r, done)
}

// CloseIdleConnections lets [http.Client.CloseIdleConnections] through.
func (t route) CloseIdleConnections() {
	if pool, ok := t.outside.(interface{ CloseIdleConnections() }); ok {
		pool.CloseIdleConnections()
	}
}

// blank is what every incoming request is made from.
var blank = new(http.Request)

// incoming is the request as a server sees it. Headers are copied, because a
// handler may outlast the client's interest in its own request.
func (w *wire) incoming(ctx context.Context) *http.Request {
	r, in := w.client, blank.WithContext(ctx)
	in.Method, in.Proto, in.ProtoMajor, in.ProtoMinor = r.Method, "HTTP/1.1", 1, 1
	in.Header, in.Host, in.RemoteAddr, in.RequestURI = r.Header.Clone(), r.Host, memoryAddress+":49152", r.URL.RequestURI()
	in.URL = &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	in.Body, in.ContentLength, in.TransferEncoding = http.NoBody, r.ContentLength, r.TransferEncoding
	if in.Method == "" {
		in.Method = http.MethodGet
	}
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.URL.Path == "" {
		in.URL.Path = "/"
	}
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

// upload is the client's request body as the handler reads it.
type upload struct {
	ctx  context.Context
	from io.ReadCloser
	once sync.Once
	err  error
}

// Read fails once the connection has ended: the client may have put its body to
// another use by then.
func (u *upload) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, io.ErrUnexpectedEOF
	}
	return u.from.Read(p)
}

// Close closes the client's body, once; both ends of the connection do.
func (u *upload) Close() error {
	u.once.Do(func() {
		if u.from != nil {
			u.err = u.from.Close()
		}
	})
	return u.err
}
