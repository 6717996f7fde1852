// Package observe defines the callbacks for tracing and measuring the calls of a client: the
// operation, the attempts with the reason of each retry, the durations and the result. Package
// dispensaryotel turns them into OpenTelemetry spans and metrics.
//
//	observer := observe.Observer{CallEnd: func(ctx context.Context, result observe.CallResult) {
//		slog.InfoContext(ctx, "call", "operation", result.Operation, "attempts", result.Attempts,
//			"duration", result.Duration, "failure", result.Failure)
//	}}
//	client, err := dispensary.New(site, dispensary.WithObserver(observer))
package observe

import (
	"context"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Observer is a set of callbacks for the calls of a client. Any function may be nil.
//
// A call is one use of a method that sends a request. A list makes one call per page. Each
// call consists of attempts: the first and its retries. CallStart runs first. Then
// AttemptStart and AttemptEnd run for each attempt. CallEnd runs last, after the response is
// decoded. The functions of one call run one after the other in the goroutine of the call,
// which waits for them, so they must be quick. Different calls overlap.
//
// CallStart and AttemptStart return a context derived from the given one. Nil means the given
// one. The context of CallStart reaches the token source, the limiter and the attempts. The
// context of AttemptStart is the context of the HTTP request.
//
// # Privacy
//
// An observer receives no URL, query, header, body or token. It receives no error either,
// because an error may contain the platform's response. Everything it receives is safe to log
// and export.
type Observer struct {
	CallStart    func(ctx context.Context, call Call) context.Context
	AttemptStart func(ctx context.Context, attempt Attempt) context.Context
	AttemptEnd   func(ctx context.Context, result AttemptResult)
	CallEnd      func(ctx context.Context, result CallResult)

	// InvalidField runs before CallEnd, once for each field of the response that cannot be
	// decoded, at most 100 times per call. The returned value has zero in that field.
	InvalidField func(ctx context.Context, field InvalidField)
}

// Call identifies the call that an [Observer] receives.
type Call struct {
	// Operation is the ID of the call, for example "patients.create".
	Operation string

	// Method and Route are the HTTP method and the route template, for example
	// "/clinic/patients/{id}". The route is "(raw)" if the caller supplied the path.
	Method, Route string

	// Environment is the client's environment.
	Environment api.Environment

	// Host is the platform's host, with the port if it is not the default of the scheme.
	Host string
}

// Attempt is a request that is about to be sent.
type Attempt struct {
	Call

	// Number is the number of the attempt, counted from 1.
	Number int

	// Retry is the reason for the attempt. It is empty for the first attempt.
	Retry RetryReason

	// BackOff is the wait before the attempt, set by the retry policy or requested by the
	// platform.
	BackOff time.Duration

	// LimiterWait is the wait after BackOff for the client's limiter, and for the end of a
	// pause requested by the platform for all calls.
	LimiterWait time.Duration
}

// AttemptResult is an attempt that has ended, with its result.
type AttemptResult struct {
	Attempt

	// StatusCode is the HTTP status of the response, or 0 if there was none.
	StatusCode int

	// RequestID is the X-Request-Id of the response.
	RequestID string

	// Duration is the time from the start of the attempt until the response was read.
	Duration time.Duration

	// Failure is empty if the whole response was received and its status is 2xx.
	Failure Failure
}

// CallResult is a call that has ended, with its result.
type CallResult struct {
	Call

	// Attempts is the number of times that the request was sent. It is 0 if it was not sent.
	Attempts int

	// StatusCode and RequestID come from the last response.
	StatusCode int
	RequestID  string

	// Duration is the duration of the call, including all waits.
	Duration time.Duration

	// Failure is empty if the call succeeded. Outcome is the effect of a failed write.
	Failure Failure
	Outcome api.Outcome
}

// InvalidField is a field of a response that cannot be decoded, or an element of a list that
// the client leaves out. It contains no value except the ID.
type InvalidField struct {
	Call

	// Field is the path of the field in the response: "products[3].primary_variant.msrp".
	Field string

	// RecordID is the ID of the nearest object around the field that has one: up to 64 letters,
	// digits, "-" and "_". It is empty if there is none.
	RecordID string
}

// RetryReason is a one-word reason for a retry.
type RetryReason string

// The reasons of a retry.
const (
	RetryReasonNetwork      RetryReason = "network"      // no complete response
	RetryReasonRateLimited  RetryReason = "rate_limited" // 429, retried after a wait
	RetryReasonServer       RetryReason = "server"       // 5xx
	RetryReasonUnauthorized RetryReason = "unauthorized" // 401, retried with a fresh token
)

// Failure is a one-word cause of a failed call or attempt. Its values are few, so you can use
// it as a label of metrics. Releases may add values.
type Failure string

// The failures.
const (
	FailureStatus        Failure = "status"             // a status other than 2xx: see StatusCode
	FailureBadResponse   Failure = "bad_response"       // a response that cannot be decoded
	FailureTooLarge      Failure = "too_large"          // a response larger than the limit
	FailureCanceled      Failure = "canceled"           // canceled by the caller
	FailureTimeout       Failure = "timeout"            // the time ran out
	FailureProxy         Failure = "proxy"              // the proxy is unreachable or rejected the connection
	FailureLookup        Failure = "host_not_found"     // the host has no address
	FailureCertificate   Failure = "certificate"        // the certificate is not trusted
	FailureTLS           Failure = "tls"                // the server does not speak TLS
	FailureRefused       Failure = "connection_refused" // no server at the port
	FailureReset         Failure = "connection_reset"   // reset by the other side
	FailureClosed        Failure = "connection_closed"  // closed before the response was complete
	FailureNetwork       Failure = "network"            // any other network or transport failure
	FailureArgument      Failure = "invalid_argument"   // an invalid argument: see api.ArgumentError
	FailureLimiter       Failure = "limiter"            // the limiter failed, or the platform had requested a pause
	FailureScope         Failure = "scope"              // the token lacks a scope: see api.ScopeError
	FailureReauthorize   Failure = "reauthorize"        // the user must authorize again
	FailureNoAccessToken Failure = "no_access_token"    // the token source failed for another reason
)
