package transport

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
)

// Config is what a Client is made of. Only Site is required.
type Config struct {
	Site api.Site

	// Transport sends the requests. Nil means a pool of the client's own.
	Transport http.RoundTripper

	// AttemptTimeout bounds each attempt, from connecting to the last byte of the response.
	// Zero means DefaultAttemptTimeout, and a negative one means no bound.
	AttemptTimeout time.Duration

	// Tokens authorizes calls that need it; without it they fail unsent.
	Tokens api.TokenSource

	// ClinicKey is sent with every call where it is set.
	ClinicKey api.Secret

	// Limiter is asked before every attempt; nil means no limit.
	Limiter api.Limiter

	Retry api.RetryPolicy

	// Logger receives one debug record an attempt, and one warning a field that cannot be
	// decoded; nil means none.
	Logger *slog.Logger

	// Observers receive how calls go.
	Observers []observe.Observer

	// UserAgent is the product that stands before the name of this module in the
	// User-Agent header. Empty sends the name of this module only.
	UserAgent string
}

// Client sends calls. It is safe for concurrent use. Views made by [Client.With] share its
// connections and wait together when the platform asks one of them to.
//
// Its fields are behind one more pointer: fmt prints what a pointer leads to, but no
// further.
type Client struct{ *core }

type core struct {
	endpoint
	config Config
	http   *http.Client

	attemptTimeout time.Duration // 0 for none

	// Shared by all views.
	ensuring *keyedLock
	altered  *alteredKeys
	warned   *sync.Map // names of operations whose assumed scope was missed
	throttle *throttle
}

// New checks the configuration and fills in its defaults.
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
		ensuring: new(keyedLock), altered: new(alteredKeys), warned: new(sync.Map), throttle: new(throttle),
	}}
	if err := client.settle(); err != nil {
		return nil, err
	}
	return client, nil
}

// With returns a view of the client with the configuration that change makes of the
// client's own. The site does not change. A Limiter is asked before the client's own, and a
// nil Transport or Limiter keeps the client's own.
func (c *Client) With(change func(*Config) error) (*Client, error) {
	view := *c.core
	view.config.Transport, view.config.Limiter = nil, nil
	view.config.Observers = slices.Clip(view.config.Observers) // views must not append to one array
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

// settle checks the configuration, fills in its defaults and derives the other fields. It
// keeps a header and an HTTP client that are there, unless the configuration has a
// transport.
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

// checkHeaders reports a field of the configuration that is sent as a header and
// cannot be.
func (c *Config) checkHeaders() error {
	for _, f := range [...]struct{ field, value string }{{"ClinicKey", c.ClinicKey.Reveal()}, {"UserAgent", c.UserAgent}} {
		if problem := HeaderProblem(f.value); problem != "" {
			return &api.ArgumentError{Field: f.field, Reason: problem}
		}
	}
	return nil
}

// limiters are asked one after the other.
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

// Site returns the site the client talks to.
func (c *Client) Site() api.Site { return c.config.Site }
