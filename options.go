package dispensary

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/internal/transport"
)

// Option configures a [Client] when it is made.
type Option func(*transport.Config) error

// WithTokenSource authorizes the client's calls. Without it only views made by
// [Client.WithTokenSource] can call what needs a token.
func WithTokenSource(tokens TokenSource) Option {
	return func(c *transport.Config) error {
		if tokens == nil {
			return &ArgumentError{Field: "WithTokenSource(tokens)", Reason: "is nil"}
		}
		c.Tokens = tokens
		return nil
	}
}

// WithHTTPClient sends requests through the transport of h and keeps its cookie
// jar and its Timeout, which bounds each attempt. Its redirect policy is not
// used: a token never follows a redirect to another origin.
//
// Without this option the client has a pool of its own and bounds each attempt
// to 30 seconds.
func WithHTTPClient(h *http.Client) Option {
	return func(c *transport.Config) error {
		if h == nil {
			return &ArgumentError{Field: "WithHTTPClient(h)", Reason: "is nil"}
		}
		c.HTTPClient = h
		return nil
	}
}

// WithClinicKey sends the key of a clinic with every call of the client and its views.
// A key belongs to one clinic: where the client serves several, give views and calls
// their own with [Client.WithClinicKey] and [ForClinicKey].
// API section: "Authentication" 9.
func WithClinicKey(key Secret) Option {
	return func(c *transport.Config) error {
		if key == "" {
			return &ArgumentError{Field: "WithClinicKey(key)", Reason: "is empty"}
		}
		c.ClinicKey = key
		return nil
	}
}

// WithLogger writes one record at debug level for every attempt: operation,
// route template, status, request id and duration. Never an address, a query, a
// body or a token.
func WithLogger(logger *slog.Logger) Option {
	return func(c *transport.Config) error {
		c.Logger = logger
		return nil
	}
}

// WithObserver tells observer how calls go: what was called, how often it was sent
// and why, how long it took, how it ended. Given several times, each is told. See
// [Observer]; the module's otel package makes spans and metrics of it.
func WithObserver(observer Observer) Option {
	return func(c *transport.Config) error {
		c.Observers = append(c.Observers, observer)
		return nil
	}
}

// WithUnknownFields reports what this module does not know yet: the members of an
// answer that have no field to go to, by the operation's id and their path, for
// example "patient.preferred_name". Values are never reported. Such members are
// ignored in any case; use it to learn of news in tests or in a sandbox. report is
// called by the goroutine that made the call.
func WithUnknownFields(report func(operation string, fields []string)) Option {
	return func(c *transport.Config) error {
		if report == nil {
			return &ArgumentError{Field: "WithUnknownFields(report)", Reason: "is nil"}
		}
		c.UnknownFields = report
		return nil
	}
}

// WithUserAgent puts product, for example "ExampleEHR/4.2", before the name of
// this module in the User-Agent header.
func WithUserAgent(product string) Option {
	return func(c *transport.Config) error {
		if product == "" {
			return &ArgumentError{Field: "WithUserAgent(product)", Reason: "is empty"}
		}
		c.UserAgent = product + " " + c.UserAgent
		return nil
	}
}

// RetryPolicy bounds the retries of a client. Zero fields mean the defaults.
// Which calls are retried at all is not configurable: see the package
// documentation.
type RetryPolicy struct {
	// MaxAttempts counts the first attempt too; 1 never retries. Default 4.
	MaxAttempts int

	// MinWait and MaxWait bound the wait before a retry, which doubles from one
	// to the other and is jittered. Defaults 250 ms and 8 s.
	MinWait, MaxWait time.Duration

	// MaxRetryAfter is the longest Retry-After that is waited for; a longer one
	// ends the call at once. Default 1 minute.
	//
	// A 429 with Retry-After holds back not only the call that got it but every
	// call of the client and of all its views, for it is the application whose
	// requests are too many: they wait until the time has passed, and fail at once
	// with an error that matches [ErrRateLimited] and [ErrNotSent] while more than
	// MaxRetryAfter is left, or more than the caller's deadline allows. This needs
	// no [Limiter], and is the same with [WithoutRetries]. Clients that were made
	// by another [New], in this process or another, do not know of it, nor do calls
	// to the token endpoint.
	MaxRetryAfter time.Duration
}

// WithRetryPolicy replaces the default retry policy.
func WithRetryPolicy(p RetryPolicy) Option {
	return func(c *transport.Config) error {
		c.Retry = transport.RetryPolicy(p)
		return nil
	}
}

// Limiter delays each attempt of a request until it may be sent. Wait returns an
// error if ctx ends, or would end, before that; the request then fails unsent.
// [RateLimiter] is one, and so is *rate.Limiter of golang.org/x/time/rate.
type Limiter interface {
	Wait(ctx context.Context) error
}

// WithLimiter asks limiter before every attempt. Share one limiter among the
// clients that the platform counts together.
func WithLimiter(limiter Limiter) Option {
	return func(c *transport.Config) error {
		if limiter == nil {
			return &ArgumentError{Field: "WithLimiter(limiter)", Reason: "is nil"}
		}
		c.Limiter = limiter
		return nil
	}
}
