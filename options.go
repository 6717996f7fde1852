package dispensary

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/transport"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// Option configures a [Client], or a view of one made by [Client.With]. An option that is
// given nil, and an Option that is nil itself, change nothing. An empty string is an
// [*ArgumentError], because it is mostly a setting that was forgotten.
type Option func(*config) error

// config is what options fill in.
type config = transport.Config

// WithTokenSource authorizes calls with the tokens of a source, such as those of package
// oauth. A client without it and without [WithAccessToken] can call only through views that
// have one.
func WithTokenSource(tokens TokenSource) Option {
	return func(c *config) error {
		if tokens != nil {
			c.Tokens = tokens
		}
		return nil
	}
}

// WithAccessToken authorizes the client's calls with a token that was issued for its
// environment. The client does not refresh it: after the token expires, calls fail with
// [ErrUnauthorized]. A token that is empty, or that no header can carry, is an
// [*ArgumentError].
func WithAccessToken(token string) Option {
	secret := NewSecret(token)
	return func(c *config) error {
		problem := transport.HeaderProblem(secret.Reveal())
		if secret.IsZero() {
			problem = "is empty"
		}
		if problem != "" {
			return &ArgumentError{Field: "WithAccessToken(token)", Reason: problem}
		}
		c.Tokens = fixedToken{AccessToken{Secret: secret, Environment: c.Site.Environment}}
		return nil
	}
}

// fixedToken is a token source that never changes.
type fixedToken struct{ token AccessToken }

func (f fixedToken) Token(context.Context) (AccessToken, error) { return f.token, nil }

// WithTransport sends requests through transport, for example one of package otel, a proxy or
// a fake. The client follows redirects by its own policy: a token never follows a redirect to
// another origin.
//
// Without this option the client uses its own connection pool. That pool pings an HTTP/2
// connection after 15 seconds without traffic and replaces it if 5 more pass without a
// response. Set the HTTP2 field of your own [http.Transport] likewise: without pings
// every call uses a dead connection for many minutes.
func WithTransport(transport http.RoundTripper) Option {
	return func(c *config) error {
		c.Transport = transport
		return nil
	}
}

// WithAttemptTimeout bounds each attempt of a call, from connecting to the last byte of the
// response. Zero means the default of 30 seconds, and a negative timeout disables the bound.
// The context of a call bounds all of its attempts together.
func WithAttemptTimeout(timeout time.Duration) Option {
	return func(c *config) error {
		c.AttemptTimeout = timeout
		return nil
	}
}

// WithClinicKey sends the key of a clinic with every call. A key belongs to one clinic, so
// an application that serves several gives each a view with its key. The first call with a
// key activates the clinic's integration. Until then the platform sends no webhook. A key
// that is empty, or that no header can carry, is an [*ArgumentError].
// API section: "Authentication" 9.
func WithClinicKey(key Secret) Option {
	return func(c *config) error {
		if key.IsZero() {
			return &ArgumentError{Field: "WithClinicKey(key)", Reason: "is empty"}
		}
		c.ClinicKey = key
		return nil
	}
}

// WithLogger writes one record at debug level for every attempt: operation,
// route template, status, request id and duration. It writes one warning for every field
// of a response that cannot be decoded: operation, path of the field and id of the record.
// Never an address, a query, a body or a token.
func WithLogger(logger *slog.Logger) Option {
	return func(c *config) error {
		if logger != nil {
			c.Logger = logger
		}
		return nil
	}
}

// WithObserver reports to observer how calls go: what was called, how often it was
// sent and why, how long it took, how it ended. Several observers may be given, and a view
// reports to those of its client too. See [Observer]. Package
// dispensaryotel makes spans and metrics of it.
func WithObserver(observer Observer) Option {
	return func(c *config) error {
		c.Observers = append(c.Observers, observer)
		return nil
	}
}

// WithUserAgent puts product, for example "ExampleEHR/4.2", before the name of this module in
// the User-Agent header, and before the products of earlier options.
func WithUserAgent(product string) Option {
	return func(c *config) error {
		if product == "" {
			return &ArgumentError{Field: "WithUserAgent(product)", Reason: "is empty"}
		}
		agent := product // an option may serve several clients
		if inner := c.UserAgent; inner != "" {
			agent += " " + inner
		}
		c.UserAgent = agent
		return nil
	}
}

// RetryPolicy bounds the retries of a client, and the waits that the platform asks
// for. Zero fields mean the defaults: 4 attempts, waits from 250 ms to 8 s, and a
// Retry-After of up to a minute.
//
// Its fields are MaxAttempts, MinWait, MaxWait and MaxRetryAfter; see
// [api.RetryPolicy].
type RetryPolicy = api.RetryPolicy

// WithRetryPolicy replaces the default retry policy.
func WithRetryPolicy(p RetryPolicy) Option {
	return func(c *config) error {
		c.Retry = p
		return nil
	}
}

// Limiter delays each attempt of a request until it may be sent. [RateLimiter] is
// one, and so is *rate.Limiter of golang.org/x/time/rate.
//
// Its method is Wait; see [api.Limiter].
type Limiter = api.Limiter

// WithLimiter asks limiter before every attempt. Share one limiter among the clients that
// the platform counts together. A view asks its own limiter first, and then the limiter of
// its client: a budget for one kind of work within the limit of all.
func WithLimiter(limiter Limiter) Option {
	return func(c *config) error {
		c.Limiter = limiter
		return nil
	}
}

// RateLimiter keeps a process below a number of requests in any period of a given
// length, exactly: however the requests are spread, no such period sees more of
// them. Bursts up to the limit pass without delay where a person waits for them;
// background work is spread over the period and leaves room for people, see
// [api.Priority].
//
// The platform is assumed to allow 5,000 requests in any five minutes; it does
// not document its limit. Where it answers 429 all the same and names a time, the
// client waits, with a limiter and without; see [RetryPolicy].
//
// Several processes share a limit with a ratelimit.Fleet.
//
// Its methods are Wait, Left, Pause and Paused; see [ratelimit.Limiter].
type RateLimiter = ratelimit.Limiter

// NewRateLimiter returns a limiter of requests in any period of per. It keeps 8
// bytes for each request.
func NewRateLimiter(requests int, per time.Duration) (*RateLimiter, error) {
	return ratelimit.New(requests, per)
}
