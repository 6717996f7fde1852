// Package signal creates the spans and metrics of its parent package, with allowed attributes
// only. An [Attribute] can only be created from a key in this file, and the rest of the module
// never passes attributes to OpenTelemetry directly.
package signal

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Attributes of requests to the platform. They contain no URL, query, request body or response
// body. The conventions require url.full, but it would identify patients.
var (
	Operation     = Key[string]{"dispensary.operation"}             // "patients.create"
	Outcome       = Key[string]{"dispensary.outcome"}               // of a failed write: "maybe_applied"
	Attempts      = Key[int]{"dispensary.attempts"}                 // of a call
	RequestID     = Key[string]{"dispensary.request_id"}            // the platform's X-Request-Id
	RetryReason   = Key[string]{"dispensary.retry.reason"}          // "rate_limited"
	BackOff       = Key[time.Duration]{"dispensary.retry.back_off"} // before a retry
	LimiterWait   = Key[time.Duration]{"dispensary.limiter.wait"}   // before an attempt
	Region        = Key[string]{"dispensary.region"}                // "us"
	Stage         = Key[string]{"dispensary.stage"}                 // "sandbox"
	Method        = Key[string]{semconv.HTTPRequestMethodKey}       // "GET"
	Route         = Key[string]{semconv.URLTemplateKey}             // "/clinic/patients/{id}"
	Status        = Key[int]{semconv.HTTPResponseStatusCodeKey}     // 200
	Resend        = Key[int]{semconv.HTTPRequestResendCountKey}     // 1 for the first retry
	ServerAddress = Key[string]{semconv.ServerAddressKey}           // the platform's host
	ServerPort    = Key[int]{semconv.ServerPortKey}
	Error         = Key[string]{semconv.ErrorTypeKey} // a one-word cause of the failure, or the status
)

// Attributes of token events. They do not identify the user.
var (
	RefreshOutcome    = Key[string]{"dispensary.oauth.refresh.outcome"}  // "done"
	Background        = Key[bool]{"dispensary.oauth.refresh.background"} // by a Refresher
	TokenEvent        = Key[string]{"dispensary.oauth.event"}            // "must_reauthorize"
	ReauthorizeReason = Key[string]{"dispensary.oauth.reason"}           // "invalid_grant"
)

// Attributes of events as they arrive and pass through the inbox.
var (
	WebhookOutcome = Key[string]{"dispensary.webhook.outcome"} // "accepted"
	Tenant         = Key[string]{"dispensary.webhook.tenant"}  // your name for the tenant
	EventType      = Key[string]{"dispensary.event.type"}      // "order.placed", or "_OTHER"
	Result         = Key[string]{"dispensary.attempt.result"}  // "handled"
	Attempt        = Key[int]{"dispensary.attempt.number"}     // counted from 1
	Stale          = Key[bool]{"dispensary.attempt.stale"}     // a newer event was handled first
	RetryIn        = Key[time.Duration]{"dispensary.attempt.retry_in"}
	InboxName      = Key[string]{"dispensary.inbox.name"}       // your name for the inbox
	InboxState     = Key[string]{"dispensary.inbox.state"}      // "waiting"
	MessageID      = Key[string]{semconv.MessagingMessageIDKey} // the event's ID
	System         = Key[string]{semconv.MessagingSystemKey}
	Destination    = Key[string]{semconv.MessagingDestinationNameKey}
	OperationName  = Key[string]{semconv.MessagingOperationNameKey}
	OperationType  = Key[string]{semconv.MessagingOperationTypeKey}
)

// Attributes of the search for missed webhooks. They do not identify the clinic.
var (
	ReconcileResult = Key[string]{"dispensary.reconcile.result"} // of missed events: "recovered"
)

// Attribute is an allowed key with a value.
type Attribute struct{ pair attribute.KeyValue }

// Key is an allowed key for values of one type. Durations are in seconds.
type Key[T string | int | bool | time.Duration] struct{ key attribute.Key }

// maxText is the longest text from outside, such as a request ID, in bytes.
const maxText = 128

// Of returns the attribute with a value. It cuts a text after 128 bytes.
func (k Key[T]) Of(value T) Attribute {
	switch value := any(value).(type) {
	case string:
		return Attribute{k.key.String(strings.ToValidUTF8(value[:min(len(value), maxText)], "�"))}
	case int:
		return Attribute{k.key.Int(value)}
	case bool:
		return Attribute{k.key.Bool(value)}
	case time.Duration:
		return Attribute{k.key.Float64(value.Seconds())}
	}
	panic("unreachable")
}

// pairs returns attributes in OpenTelemetry's form.
func pairs(attributes []Attribute) []attribute.KeyValue {
	all := make([]attribute.KeyValue, len(attributes))
	for i, a := range attributes {
		all[i] = a.pair
	}
	return all
}
