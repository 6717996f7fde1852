package transport

import "net/http"

// idleConnsPerHost lets a pool keep the connections of concurrent callers;
// net/http's own default of 2 would open new ones all the time.
const idleConnsPerHost = 64

func newHTTPClient(given *http.Client) *http.Client {
	client := http.Client{Timeout: DefaultAttemptTimeout}
	if given != nil {
		client = *given
	}
	if client.Transport == nil {
		client.Transport = newPool()
	}
	client.Transport = sharedPool{client.Transport}
	client.CheckRedirect = checkRedirect
	return &client
}

// newPool returns a connection pool with the settings of http.DefaultTransport. If the
// program has replaced http.DefaultTransport with another type, as mocks and tracing
// agents do, it returns the replacement.
func newPool() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	pool := standard.Clone()
	pool.MaxIdleConnsPerHost = idleConnsPerHost
	return pool
}

// sharedPool hides CloseIdleConnections of the transport it wraps: the retrying
// client calls it whenever a request fails for good, which would drop the idle
// connections of every other tenant.
type sharedPool struct{ base http.RoundTripper }

func (p sharedPool) RoundTrip(r *http.Request) (*http.Response, error) { return p.base.RoundTrip(r) }

// maxRedirects bounds the redirects of one read.
const maxRedirects = 5

// checkRedirect follows a redirect only for a read that stays at its origin:
// elsewhere the token must not go, and a redirected write may arrive as another
// request. What is not followed is returned as the answer.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	sameOrigin := next.URL.Scheme == first.URL.Scheme && next.URL.Host == first.URL.Host
	read := first.Method == http.MethodGet || first.Method == http.MethodHead
	if !sameOrigin || !read || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}
