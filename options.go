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

// Option configures a [Client], or a view created by [Client.With]. A nil Option, or an option
// with a nil argument, changes nothing. An empty string is an [*api.ArgumentError], because it
// is usually a forgotten setting.
type Option func(*config) error

// config is the configuration that options change.
type config = transport.Config

// WithTokenSource authorizes calls with the tokens of a source, such as a source of package
// oauth. A client without a token source and without [WithAccessToken] can call only through
// views that have one.
func WithTokenSource(tokens api.TokenSource) Option {
	return func(c *config) error {
		if tokens != nil {
			c.Tokens = tokens
		}
		return nil
	}
}

// WithAccessToken authorizes calls with a token that was issued for the client's environment.
// The client does not refresh it: after it expires, calls fail with [api.ErrUnauthorized]. If
// the token is blank, contains white space or begins with "Bearer", or is invalid in a header,
// the error is an [*api.ArgumentError].
func WithAccessToken(token string) Option {
	secret := NewSecret(token)
	return func(c *config) error {
		if problem := transport.TokenProblem(secret.Reveal()); problem != "" {
			return &api.ArgumentError{Field: "WithAccessToken(token)", Reason: problem}
		}
		c.Tokens = fixedToken{api.AccessToken{Secret: secret, Environment: c.Site.Environment}}
		return nil
	}
}

// fixedToken is a token source with one token.
type fixedToken struct{ token api.AccessToken }

func (f fixedToken) Token(context.Context) (api.AccessToken, error) { return f.token, nil }

// WithTransport sends requests through transport, for example an instrumented transport, a
// proxy or a fake. The client follows redirects by its own policy: a token never follows a
// redirect to another origin.
//
// Without this option the client uses its own connection pool. The pool pings an HTTP/2
// connection after 15 seconds without traffic, and replaces it if 5 more seconds pass without
// a response. Set the HTTP2 field of your own [http.Transport] in the same way. If it sends no
// pings, every call uses a dead connection for many minutes.
func WithTransport(transport http.RoundTripper) Option {
	return func(c *config) error {
		c.Transport = transport
		return nil
	}
}

// WithAttemptTimeout limits each attempt of a call, from connecting to the last byte of the
// response. Zero means the default of 30 seconds, and a negative timeout disables the limit.
// The context of a call limits all its attempts together.
func WithAttemptTimeout(timeout time.Duration) Option {
	return func(c *config) error {
		c.AttemptTimeout = timeout
		return nil
	}
}

// WithClinicKey sends the key of a clinic with every call. A key belongs to one clinic, so an
// application that serves several clinics gives each view its key. The first call with a key
// activates the clinic's integration. Until then the platform sends no webhook. If the key is
// blank or invalid in a header, the error is an [*api.ArgumentError].
// API section: "Authentication" 9.
func WithClinicKey(key Secret) Option {
	return func(c *config) error {
		if problem := transport.BlankProblem(key.Reveal()); problem != "" {
			return &api.ArgumentError{Field: "WithClinicKey(key)", Reason: problem}
		}
		c.ClinicKey = key
		return nil
	}
}

// WithoutClinicKey sends no clinic key, for a view of a client that has one: see [Client.With].
func WithoutClinicKey() Option {
	return func(c *config) error {
		c.ClinicKey = Secret{}
		return nil
	}
}

// WithLogger logs each attempt at debug level: operation, route template, status, request ID
// and duration. It logs a warning for each field of a response that cannot be decoded:
// operation, path of the field and ID of the record. It never logs a URL, a query, a body or a
// token.
func WithLogger(logger *slog.Logger) Option {
	return func(c *config) error {
		if logger != nil {
			c.Logger = logger
		}
		return nil
	}
}

// WithObserver reports each call to observer: its operation, its attempts and their reasons,
// its duration and its result. You can pass several observers, and a view also reports to the
// observers of its client. Package dispensaryotel creates spans and metrics from the reports.
func WithObserver(observer observe.Observer) Option {
	return func(c *config) error {
		c.Observers = append(c.Observers, observer)
		return nil
	}
}

// WithUserAgent adds product, for example "ExampleEHR/4.2", to the User-Agent header, before
// the name of this module and before the products of earlier options.
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

// WithLimiter waits for limiter before every attempt. Package ratelimit has limiters, and
// *rate.Limiter of golang.org/x/time/rate is one. Share one limiter among the clients that the
// platform counts together. A view waits for its own limiter first, and then for the limiter
// of its client. This gives one kind of work its own budget within the limit for all.
func WithLimiter(limiter api.Limiter) Option {
	return func(c *config) error {
		c.Limiter = limiter
		return nil
	}
}
