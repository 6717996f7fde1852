package api

import (
	"context"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
)

// Response contains the metadata of a response. See [CaptureResponse].
type Response struct {
	// StatusCode is the HTTP status, or 0 if there was no response.
	StatusCode int

	// Header contains the headers of the response.
	Header http.Header

	// RequestID is the X-Request-Id of the response. Quote it if you report a problem to the
	// platform.
	RequestID string

	// Attempts is the number of times that the request was sent, including retries.
	Attempts int
}

// RequestOption changes a single call. Every method that sends a request accepts any number of
// them as its last arguments. A nil RequestOption changes nothing.
type RequestOption func(*hidden.CallSettings)

// CaptureResponse stores the status, headers and request ID of the response in response, on
// success and on failure. Concurrent calls need one Response each. A list rejects the option
// with an [*ArgumentError], because each [Page] contains its Response.
func CaptureResponse(response *Response) RequestOption {
	return func(s *hidden.CallSettings) {
		if response != nil {
			s.Captures = append(s.Captures, (*hidden.Response)(response))
		}
	}
}

// WithoutRetries sends the request only once, even if it fails.
func WithoutRetries() RequestOption {
	return func(s *hidden.CallSettings) { s.NoRetries = true }
}

// RetryPolicy limits the retries of a client. Zero fields mean the defaults. The choice of
// calls to retry is not configurable: see the documentation of the root package.
type RetryPolicy struct {
	// MaxAttempts is the largest number of attempts, including the first. 1 disables retries.
	// The default is 4.
	MaxAttempts int

	// MinWait and MaxWait are the shortest and the longest wait before a retry. The wait
	// doubles with each retry and is jittered. The defaults are 250 ms and 8 s.
	MinWait, MaxWait time.Duration

	// MaxRetryAfter is the longest Retry-After that a call waits for. A longer one fails the
	// call at once. The default is 1 minute.
	//
	// A 429 with Retry-After pauses all calls of the client and of its views, because the limit
	// applies to the whole application. A paused call waits until the time has passed. It fails
	// at once with an error that matches [ErrRateLimited] and [ErrNotSent] if the rest of the
	// pause exceeds MaxRetryAfter or the caller's deadline. If a 429 lacks proof that the
	// platform wrote it, the pause is at most MaxRetryAfter.
	//
	// The pause needs no [Limiter] and applies without retries too. Separate clients share it
	// through a [PausingLimiter]. Calls to the token endpoint do not wait.
	MaxRetryAfter time.Duration
}

// Limiter delays each attempt of a request until it may be sent. Wait returns an error if ctx
// ends, or would end, before that. The request then fails without being sent. *rate.Limiter of
// golang.org/x/time/rate implements Limiter.
type Limiter interface {
	Wait(ctx context.Context) error
}

// Priority is the urgency of a request that waits for a rate limit. Requests of a higher
// priority go first, and can use a share of the limit that is reserved from lower priorities.
// The library gives its own background requests the priority of their work, unless their
// context already has one: see [ContextWithPriority].
type Priority uint8

// The priorities, highest first. Interactive is the zero value and the default.
const (
	PriorityInteractive Priority = iota // a user waits for the response
	PriorityRefresh                     // a token is refreshed before it expires
	PriorityEvent                       // an event is handled, or its object is read
	PriorityReconcile                   // event lists are searched for missed events
	PriorityCatalog                     // the catalog is copied
)

// String returns the name of the priority: "interactive", "refresh", "event", "reconcile" or
// "catalog".
func (p Priority) String() string {
	switch p {
	case PriorityInteractive:
		return "interactive"
	case PriorityRefresh:
		return "refresh"
	case PriorityEvent:
		return "event"
	case PriorityReconcile:
		return "reconcile"
	}
	return "catalog"
}

// ContextWithPriority returns a context that gives its requests priority p. A value below the
// lowest priority counts as [PriorityCatalog].
func ContextWithPriority(ctx context.Context, p Priority) context.Context {
	return context.WithValue(ctx, hidden.PriorityKey{}, min(p, PriorityCatalog))
}

// PausingLimiter is a [Limiter] that shares the pause after a 429 with Retry-After. All
// clients with the same PausingLimiter wait together.
type PausingLimiter interface {
	Limiter

	// Pause records that the platform accepts no request for the duration d, starting now. A
	// shorter pause does not end a longer one.
	Pause(d time.Duration)

	// Paused returns the rest of the pause, or 0 if there is none. A client delays calls until
	// it is over, see [RetryPolicy].MaxRetryAfter.
	Paused() time.Duration
}
