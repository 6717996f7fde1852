package dispensary

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Option configures a [Client], or a view of one made by [Client.With]. An option that is
// given nil, and an Option that is nil itself, change nothing. An empty string is an
// [*api.ArgumentError], because it is mostly a setting that was forgotten.
type Option func(*config) error

// config is what options fill in.
type config = transport.Config

// WithTokenSource authorizes calls with the tokens of a source, such as those of package
// oauth. A client without it and without [WithAccessToken] can call only through views that
// have one.
func WithTokenSource(tokens api.TokenSource) Option {
	return func(c *config) error {
		if tokens != nil {
			c.Tokens = tokens
		}
		return nil
	}
}

// WithAccessToken authorizes the client's calls with a token that was issued for its
// environment. The client does not refresh it: after the token expires, calls fail with
// [api.ErrUnauthorized]. A token that is empty, or that no header can carry, is an
// [*api.ArgumentError].
func WithAccessToken(token string) Option {
	secret := NewSecret(token)
	return func(c *config) error {
		problem := transport.HeaderProblem(secret.Reveal())
		if secret.IsZero() {
			problem = "is empty"
		}
		if problem != "" {
			return &api.ArgumentError{Field: "WithAccessToken(token)", Reason: problem}
		}
		c.Tokens = fixedToken{api.AccessToken{Secret: secret, Environment: c.Site.Environment}}
		return nil
	}
}

// fixedToken is a token source that never changes.
type fixedToken struct{ token api.AccessToken }

func (f fixedToken) Token(context.Context) (api.AccessToken, error) { return f.token, nil }

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
// that is empty, or that no header can carry, is an [*api.ArgumentError].
// API section: "Authentication" 9.
func WithClinicKey(key Secret) Option {
	return func(c *config) error {
		if key.IsZero() {
			return &api.ArgumentError{Field: "WithClinicKey(key)", Reason: "is empty"}
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
// reports to those of its client too. Package dispensaryotel
// makes spans and metrics of it.
func WithObserver(observer observe.Observer) Option {
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
			return &api.ArgumentError{Field: "WithUserAgent(product)", Reason: "is empty"}
		}
		agent := product // an option may serve several clients
		if inner := c.UserAgent; inner != "" {
			agent += " " + inner
		}
		c.UserAgent = agent
		return nil
	}
}

// WithRetryPolicy replaces the default retry policy.
func WithRetryPolicy(p RetryPolicy) Option {
	return func(c *config) error {
		c.Retry = p
		return nil
	}
}

// WithLimiter asks limiter before every attempt. Package ratelimit has limiters, and
// *rate.Limiter of golang.org/x/time/rate is one. Share one limiter among the clients that
// the platform counts together. A view asks its own limiter first, and then the limiter of
// its client: a budget for one kind of work within the limit of all.
func WithLimiter(limiter api.Limiter) Option {
	return func(c *config) error {
		c.Limiter = limiter
		return nil
	}
}
