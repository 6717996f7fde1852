// Package transport sends every call to the platform through one pipeline. [newPipeline]
// composes it from these steps, called links.
//
//	buildErrors      errors.go     turns every failure into an *api.Error
//	prepareRequest   call_state.go checks the arguments, sends no request
//	captureResponse  call_state.go stores the headers for api.CaptureResponse
//	authorize        authorize.go  token and scopes; one retry with a fresh token after a 401
//	sendWithRetries  attempt.go    waits, sends, reads and logs; retries as the policy allows
//
// Three parts protect records from other software on the way: request_fields.go rejects text
// that JSON would change, response.go decides which responses come from the platform, and
// failure.go prevents net/http from repeating a write.
//
// Services see only the functions of verbs.go, which also decode successful responses, of list.go
// and of ensure.go, so each of their methods has a few lines. A file uses only the files of the
// layers below it: links use the state of the call, the state uses the client, and all of them
// use the response, the failures and the headers.
package transport

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
)

// Config configures a Client. Only Site is required.
type Config struct {
	Site api.Site

	// Transport sends the requests. Nil means a connection pool of the client.
	Transport http.RoundTripper

	// AttemptTimeout limits each attempt, from connecting to the last byte of the response. 0
	// means DefaultAttemptTimeout, and a negative value means no limit.
	AttemptTimeout time.Duration

	// Tokens authorizes the calls that need a token. If it is nil, these calls fail without a
	// request.
	Tokens api.TokenSource

	// ClinicKey is sent with every call, unless it is empty.
	ClinicKey api.Secret

	// Limiter is called before every attempt. Nil means no limit.
	Limiter api.Limiter

	Retry api.RetryPolicy

	// Logger receives a debug record for each attempt and a warning for each field that cannot
	// be decoded. Nil means no logging.
	Logger *slog.Logger

	// Observers are notified of the progress of calls.
	Observers []observe.Observer

	// UserAgent is the product before the name of this module in the User-Agent header. If it
	// is empty, the header contains only the name of this module.
	UserAgent string
}

// Client sends calls. It is safe for concurrent use. Views created by [Client.With] share its
// connections, and all of them wait if the platform asks one of them to wait.
//
// The fields are behind a second pointer, because fmt prints the struct behind a pointer but
// not the struct behind a pointer in it.
type Client struct{ *core }

type core struct {
	endpoint
	config Config
	http   *http.Client

	attemptTimeout time.Duration // 0 for no limit

	// Shared by all views.
	ensuring *keyedLock
	ensured  *ensuredRecords
	warned   *sync.Map // operations whose missing assumed scope was logged
	throttle *throttle
}

// New checks the configuration and sets its defaults.
func New(config Config) (*Client, error) {
	if err := config.Site.Validate(); err != nil {
		return nil, err
	}
	base, err := url.Parse(strings.TrimSuffix(config.Site.BaseURL, "/"))
	if err != nil {
		return nil, &api.ArgumentError{Field: "Site.BaseURL", Reason: "is not a URL"}
	}
	client := &Client{&core{
		endpoint: endpoint{base: base}, config: config,
		ensuring: new(keyedLock), ensured: new(ensuredRecords), warned: new(sync.Map), throttle: new(throttle),
	}}
	if err := client.settle(); err != nil {
		return nil, err
	}
	return client, nil
}

// With returns a view of the client. change receives the client's configuration and modifies
// it for the view. The site does not change. A new Limiter is called before the client's own.
// A nil Transport or Limiter keeps the client's own.
func (c *Client) With(change func(*Config) error) (*Client, error) {
	view := *c.core
	view.config.Transport, view.config.Limiter = nil, nil
	view.config.Observers = slices.Clip(view.config.Observers) // views must not append to a shared array
	if err := change(&view.config); err != nil {
		return nil, err
	}
	switch own := c.config.Limiter; {
	case view.config.Limiter == nil:
		view.config.Limiter = own
	case own != nil:
		view.config.Limiter = limiters{view.config.Limiter, own}
	}
	if view.config.UserAgent != c.config.UserAgent {
		view.header = nil
	}
	if err := view.settle(); err != nil {
		return nil, err
	}
	return &Client{&view}, nil
}

// settle checks the configuration, sets its defaults and derives the other fields. It keeps an
// existing header, and an existing HTTP client unless the configuration has a transport.
func (c *core) settle() (err error) {
	if c.config.Retry, err = withDefaults(c.config.Retry); err != nil {
		return err
	}
	if err := c.config.checkHeaders(); err != nil {
		return err
	}
	if c.header == nil {
		c.header = http.Header{"Accept": {"application/json"}, "User-Agent": {userAgent(c.config.UserAgent)}}
	}
	if c.http == nil || c.config.Transport != nil {
		c.http = newHTTPClient(c.config.Transport)
	}
	c.attemptTimeout, c.clinicKey = attemptTimeout(c.config.AttemptTimeout), c.config.ClinicKey
	return nil
}

// withDefaults replaces the zero fields of a policy with their defaults.
func withDefaults(p api.RetryPolicy) (api.RetryPolicy, error) {
	if p.MaxAttempts < 0 || p.MinWait < 0 || p.MaxWait < 0 || p.MaxRetryAfter < 0 {
		return p, &api.ArgumentError{Field: "RetryPolicy", Reason: "must not contain negative values"}
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = 4
	}
	if p.MinWait == 0 {
		p.MinWait = 250 * time.Millisecond
	}
	if p.MaxWait == 0 {
		p.MaxWait = max(8*time.Second, p.MinWait)
	}
	if p.MaxRetryAfter == 0 {
		p.MaxRetryAfter = time.Minute
	}
	if p.MaxWait < p.MinWait {
		return p, &api.ArgumentError{Field: "RetryPolicy.MaxWait", Reason: "is shorter than MinWait"}
	}
	return p, nil
}

// checkHeaders returns an error if a field of the configuration is not a valid header value.
func (c *Config) checkHeaders() error {
	for _, f := range [...]struct{ field, value string }{{"ClinicKey", c.ClinicKey.Reveal()}, {"UserAgent", c.UserAgent}} {
		if problem := HeaderProblem(f.value); problem != "" {
			return &api.ArgumentError{Field: f.field, Reason: problem}
		}
	}
	return nil
}

// limiters calls two limiters one after the other.
type limiters [2]api.Limiter

// Wait implements [api.Limiter].
func (l limiters) Wait(ctx context.Context) error {
	if err := l[0].Wait(ctx); err != nil {
		return err
	}
	return l[1].Wait(ctx)
}

// Pause implements [api.PausingLimiter].
func (l limiters) Pause(d time.Duration) {
	for _, one := range l {
		if pausing, ok := one.(api.PausingLimiter); ok {
			pausing.Pause(d)
		}
	}
}

// Paused implements [api.PausingLimiter].
func (l limiters) Paused() (left time.Duration) {
	for _, one := range l {
		if pausing, ok := one.(api.PausingLimiter); ok {
			left = max(left, pausing.Paused())
		}
	}
	return left
}

// Site returns the client's site.
func (c *Client) Site() api.Site { return c.config.Site }

// throttle contains the end of the pause requested by the platform. A 429 applies to all
// requests and not only to the rejected one, so all views of a client share it.
type throttle struct{ until atomic.Pointer[time.Time] }

// maxThrottle limits the effect of one response, because a wrong value in it must not stop a
// program for days.
const maxThrottle = time.Hour

// extend records that the platform asked for a wait from now on, of at most maxThrottle.
func (t *throttle) extend(asked time.Duration) {
	until := time.Now().Add(asked)
	for {
		known := t.until.Load()
		if known != nil && !known.Before(until) || t.until.CompareAndSwap(known, &until) {
			return
		}
	}
}

// left returns the remaining wait.
func (t *throttle) left() time.Duration {
	until := t.until.Load()
	if until == nil {
		return 0
	}
	return max(time.Until(*until), 0)
}

// throttledError means that a request was not sent because the platform has asked for a longer
// wait than the caller allows.
type throttledError struct{ left time.Duration }

func (e *throttledError) Error() string {
	return "dispensary: rate limited by the platform for another " + e.left.Round(time.Second).String()
}

func (e *throttledError) Is(target error) bool { return target == api.ErrRateLimited }

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
