package transport

import (
	"cmp"
	"net/http"
	"time"
)

// Settings of the module's own connection pool.
const (
	// idleConnsPerHost is the number of idle connections that a pool keeps for each host. The
	// default of net/http, 2, would open new connections for concurrent callers.
	idleConnsPerHost = 64

	// idleConnTimeout is shorter than the 60 seconds after which common load balancers drop an
	// idle connection.
	idleConnTimeout = 45 * time.Second

	// An HTTP/2 connection that has received no byte for sendPingTimeout gets a ping. It is
	// closed if no response arrives within pingTimeout. Without pings, every request uses a
	// dead connection until the kernel closes it after about 15 minutes.
	sendPingTimeout = 15 * time.Second
	pingTimeout     = 5 * time.Second
)

// newHTTPClient returns the client that sends attempts. It has no Timeout, because each
// attempt has its own deadline.
func newHTTPClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = newPool()
	}
	return &http.Client{Transport: sharedPool{transport}, CheckRedirect: checkRedirect}
}

// newPool returns a connection pool with the settings of http.DefaultTransport. If the program
// has replaced http.DefaultTransport with another type, as mocks and tracing agents do,
// newPool returns the replacement.
func newPool() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	pool := standard.Clone()
	pool.MaxIdleConnsPerHost, pool.IdleConnTimeout = idleConnsPerHost, idleConnTimeout
	if pool.OnProxyConnectResponse == nil {
		pool.OnProxyConnectResponse = checkProxyResponse
	}
	if pool.HTTP2 == nil {
		pool.HTTP2 = &http.HTTP2Config{}
	}
	pool.HTTP2.SendPingTimeout = cmp.Or(pool.HTTP2.SendPingTimeout, sendPingTimeout)
	pool.HTTP2.PingTimeout = cmp.Or(pool.HTTP2.PingTimeout, pingTimeout)
	return pool
}

// sharedPool hides CloseIdleConnections of the wrapped transport. The retrying client calls it
// after each permanent failure, which would drop the idle connections of every other tenant.
type sharedPool struct{ base http.RoundTripper }

func (p sharedPool) RoundTrip(r *http.Request) (*http.Response, error) { return p.base.RoundTrip(r) }

// maxRedirects is the maximum number of redirects of one read.
const maxRedirects = 5

// checkRedirect follows a redirect only for a read within its origin. The token must not reach
// another origin, and a redirected write may arrive as another request. A redirect that is not
// followed is returned as the response.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	sameOrigin := next.URL.Scheme == first.URL.Scheme && next.URL.Host == first.URL.Host
	read := first.Method == http.MethodGet || first.Method == http.MethodHead
	if !sameOrigin || !read || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// DefaultAttemptTimeout is the timeout of an attempt if the caller sets none.
const DefaultAttemptTimeout = 30 * time.Second

// attemptTimeout returns the timeout of each attempt: DefaultAttemptTimeout if setting is 0,
// and 0 for no timeout if setting is negative.
func attemptTimeout(setting time.Duration) time.Duration {
	if setting == 0 {
		return DefaultAttemptTimeout
	}
	return max(setting, 0)
}
