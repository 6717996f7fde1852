// Package observe is what an observer of a client learns: which call was made, how
// often it was sent and why, how long it took, and how it ended. Tracing and metrics
// are built on it; package dispensaryotel is an example.
package observe

import (
	"context"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Observer receives how the calls of a client go, for traces and metrics. Any
// function may be nil.
//
// A call is what a method does that sends a request; a list read to its end makes one
// call a page. It is sent in attempts: the first and its retries. For each call
// CallStart comes first; then, for each attempt, AttemptStart and AttemptEnd; and
// CallEnd last, once the answer is decoded. They run one after the other in the
// goroutine of the call, which waits for them: they must be quick. Different
// calls overlap.
//
// The starting functions return the context that goes on: that of a call reaches
// the token source, the limiter and the attempts, that of an attempt is the
// context of the HTTP request. It must be derived from the context given; nil
// means the context given.
//
// An observer receives no address, query, header, body or token, and no error, which
// may contain what the platform answered: everything it receives can be logged and
// exported.
type Observer struct {
	CallStart    func(ctx context.Context, call Call) context.Context
	AttemptStart func(ctx context.Context, attempt Attempt) context.Context
	AttemptEnd   func(ctx context.Context, result AttemptResult)
	CallEnd      func(ctx context.Context, result CallResult)

	// InvalidField runs before CallEnd, once for each field of the response that cannot be
	// decoded, at most 100 times a call. The field is zero in the value that the call returns.
	InvalidField func(ctx context.Context, field InvalidField)
}

// Call says which call an [Observer] receives.
type Call struct {
	// Operation is the id of the call, for example "patients.create".
	Operation string

	// Method and Route are the HTTP method and the route template, for example
	// "/clinic/patients/{id}"; the route is "(raw)" where the path is the
	// caller's own.
	Method, Route string

	// Environment is the client's.
	Environment api.Environment

	// Host is the platform's, with the port if it is not that of the scheme.
	Host string
}

// Attempt is a request that is about to be sent.
type Attempt struct {
	Call

	// Number counts from 1.
	Number int

	// Retry says why it is made; empty for the first.
	Retry RetryReason

	// BackOff is how long the call waited before it, by its retry policy or
	// because the platform asked for it.
	BackOff time.Duration

	// LimiterWait is how long it waited after that for the client's limiter, and
	// for the end of the time for which the platform had asked all calls to wait.
	LimiterWait time.Duration
}

// AttemptResult is an attempt that has ended.
type AttemptResult struct {
	Attempt

	// StatusCode is that of the answer, 0 where none came.
	StatusCode int

	// RequestID is the X-Request-Id of the answer.
	RequestID string

	// Duration is how long it took, until the answer was read.
	Duration time.Duration

	// Failure is empty if the answer came whole and its status is 2xx.
	Failure Failure
}

// CallResult is a call that has ended.
type CallResult struct {
	Call

	// Attempts counts how often the request was sent; 0 if it was not.
	Attempts int

	// StatusCode and RequestID are those of the last answer.
	StatusCode int
	RequestID  string

	// Duration is how long it took, with all waits.
	Duration time.Duration

	// Failure is empty if it succeeded, and Outcome says of a failed write what
	// became of it.
	Failure Failure
	Outcome api.Outcome
}

// InvalidField is a field of a response that cannot be decoded, or an element of a list
// that the client leaves out. It holds no value but the id.
type InvalidField struct {
	Call

	// Field is the path of the field in the response: "products[3].primary_variant.msrp".
	Field string

	// RecordID is the id of the nearest object around the field that has one: up to 64
	// letters, digits, "-" and "_". It is empty if there is none.
	RecordID string
}

// RetryReason says in a word why a request was sent again.
type RetryReason string

// The reasons of a retry.
const (
	RetryReasonNetwork      RetryReason = "network"      // no whole answer came
	RetryReasonRateLimited  RetryReason = "rate_limited" // 429
	RetryReasonServer       RetryReason = "server"       // 5xx
	RetryReasonUnauthorized RetryReason = "unauthorized" // 401, followed by a fresh token
)

// Failure says in a word why a call or an attempt failed. There are few of them,
// so that metrics can be counted by it; more may come.
type Failure string

// The failures.
const (
	FailureStatus        Failure = "status"             // an answer that is not 2xx: see StatusCode
	FailureBadResponse   Failure = "bad_response"       // an answer that cannot be decoded
	FailureTooLarge      Failure = "too_large"          // an answer beyond the limit
	FailureCanceled      Failure = "canceled"           // by the caller
	FailureTimeout       Failure = "timeout"            // time ran out
	FailureProxy         Failure = "proxy"              // not reached, or it rejected the connection
	FailureLookup        Failure = "host_not_found"     // the host has no address
	FailureCertificate   Failure = "certificate"        // not trusted
	FailureTLS           Failure = "tls"                // the server does not use it
	FailureRefused       Failure = "connection_refused" // no server at the port
	FailureReset         Failure = "connection_reset"   // by the other side
	FailureClosed        Failure = "connection_closed"  // in the middle
	FailureNetwork       Failure = "network"            // any other failure of network or transport
	FailureArgument      Failure = "invalid_argument"   // nothing to send: see api.ArgumentError
	FailureLimiter       Failure = "limiter"            // the limiter failed, or the platform had asked to wait
	FailureScope         Failure = "scope"              // the token lacks it: see api.ScopeError
	FailureReauthorize   Failure = "reauthorize"        // the user has to authorize again
	FailureNoAccessToken Failure = "no_access_token"    // the token source failed otherwise
)
