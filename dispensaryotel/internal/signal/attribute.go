// Package signal makes the spans and metrics of its parent package, with the
// attributes that are allowed and no others: an [Attribute] can only be made of a
// key that is in this file, and nothing else takes OpenTelemetry's own.
package signal

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Attributes of requests to the platform. None holds an address, a query or what
// was sent or answered: url.full, which the conventions ask for, names patients.
var (
	Operation     = Key[string]{"dispensary.operation"}             // "patients.create"
	Outcome       = Key[string]{"dispensary.outcome"}               // of a write that failed: "maybe_applied"
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
	Error         = Key[string]{semconv.ErrorTypeKey} // why it failed, in a word; or the status
)

// Attributes of what happens to tokens. None says whose.
var (
	RefreshOutcome    = Key[string]{"dispensary.oauth.refresh.outcome"}  // "done"
	Background        = Key[bool]{"dispensary.oauth.refresh.background"} // by a Refresher
	TokenEvent        = Key[string]{"dispensary.oauth.event"}            // "must_reauthorize"
	ReauthorizeReason = Key[string]{"dispensary.oauth.reason"}           // "invalid_grant"
)

// Attributes of events on their way in and through the inbox.
var (
	WebhookOutcome = Key[string]{"dispensary.webhook.outcome"} // "accepted"
	Tenant         = Key[string]{"dispensary.webhook.tenant"}  // the integrator's own name of it
	EventType      = Key[string]{"dispensary.event.type"}      // "order.placed", or "_OTHER"
	Result         = Key[string]{"dispensary.attempt.result"}  // "handled"
	Attempt        = Key[int]{"dispensary.attempt.number"}     // counts from 1
	Stale          = Key[bool]{"dispensary.attempt.stale"}     // a newer event was handled before
	RetryIn        = Key[time.Duration]{"dispensary.attempt.retry_in"}
	InboxName      = Key[string]{"dispensary.inbox.name"}       // the program's own name of it
	InboxState     = Key[string]{"dispensary.inbox.state"}      // "waiting"
	MessageID      = Key[string]{semconv.MessagingMessageIDKey} // the event's id
	System         = Key[string]{semconv.MessagingSystemKey}
	Destination    = Key[string]{semconv.MessagingDestinationNameKey}
	OperationName  = Key[string]{semconv.MessagingOperationNameKey}
	OperationType  = Key[string]{semconv.MessagingOperationTypeKey}
)

// Attributes of the search for missed webhooks. None names a clinic.
var (
	ReconcileShort  = Key[bool]{"dispensary.reconcile.short"}    // the event lists were not read
	ReconcileResult = Key[string]{"dispensary.reconcile.result"} // of missed events: "recovered"
)

// Attribute is a key that is allowed, with a value.
type Attribute struct{ pair attribute.KeyValue }

// Key is a key that is allowed, for values of one type. Durations are in seconds.
type Key[T string | int | bool | time.Duration] struct{ key attribute.Key }

// maxText bounds the texts that come from outside, such as a request id.
const maxText = 128

// Of returns the attribute with a value. It cuts off a text after 128 bytes.
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
