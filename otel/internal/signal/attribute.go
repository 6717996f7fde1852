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
	Operation     = text("dispensary.operation")              // "patients.create"
	Outcome       = text("dispensary.outcome")                // of a write that failed: "maybe_applied"
	Attempts      = number("dispensary.attempts")             // of a call
	RequestID     = text("dispensary.request_id")             // the platform's X-Request-Id
	RetryReason   = text("dispensary.retry.reason")           // "rate_limited"
	BackOff       = seconds("dispensary.retry.back_off")      // before a retry
	LimiterWait   = seconds("dispensary.limiter.wait")        // before an attempt
	Region        = text("dispensary.region")                 // "us"
	Stage         = text("dispensary.stage")                  // "sandbox"
	Method        = text(semconv.HTTPRequestMethodKey)        // "GET"
	Route         = text(semconv.URLTemplateKey)              // "/clinic/patients/{id}"
	Status        = number(semconv.HTTPResponseStatusCodeKey) // 200
	Resend        = number(semconv.HTTPRequestResendCountKey) // 1 for the first retry
	ServerAddress = text(semconv.ServerAddressKey)            // the platform's host
	ServerPort    = number(semconv.ServerPortKey)
	Error         = text(semconv.ErrorTypeKey) // why it failed, in a word; or the status
)

// Attributes of what happens to tokens. None says whose.
var (
	RefreshOutcome    = text("dispensary.oauth.refresh.outcome")    // "done"
	Background        = flag("dispensary.oauth.refresh.background") // by a Refresher
	TokenEvent        = text("dispensary.oauth.event")              // "must_reauthorize"
	ReauthorizeReason = text("dispensary.oauth.reason")             // "invalid_grant"
)

// Attributes of events on their way in and through the inbox.
var (
	WebhookOutcome = text("dispensary.webhook.outcome")  // "accepted"
	Tenant         = text("dispensary.webhook.tenant")   // the integrator's own name of it
	EventType      = text("dispensary.event.type")       // "order.placed", or "_OTHER"
	Result         = text("dispensary.attempt.result")   // "handled"
	Attempt        = number("dispensary.attempt.number") // counts from 1
	Stale          = flag("dispensary.attempt.stale")    // a newer event was handled before
	RetryIn        = seconds("dispensary.attempt.retry_in")
	InboxName      = text("dispensary.inbox.name")       // the program's own name of it
	InboxState     = text("dispensary.inbox.state")      // "waiting"
	MessageID      = text(semconv.MessagingMessageIDKey) // the event's id
	System         = text(semconv.MessagingSystemKey)
	Destination    = text(semconv.MessagingDestinationNameKey)
	OperationName  = text(semconv.MessagingOperationNameKey)
	OperationType  = text(semconv.MessagingOperationTypeKey)
)

// Attribute is a key that is allowed, with a value.
type Attribute struct{ pair attribute.KeyValue }

// Text is the key of a short text.
type Text struct{ key attribute.Key }

// Number is the key of a whole number.
type Number struct{ key attribute.Key }

// Seconds is the key of a duration in seconds.
type Seconds struct{ key attribute.Key }

// Flag is the key of a truth value.
type Flag struct{ key attribute.Key }

// maxText bounds the texts that come from outside, such as a request id.
const maxText = 128

// Of returns the attribute with a value, cut off where it is too long.
func (t Text) Of(value string) Attribute {
	if len(value) > maxText {
		value = value[:maxText]
	}
	return Attribute{t.key.String(strings.ToValidUTF8(value, "�"))}
}

// Of returns the attribute with a value.
func (n Number) Of(value int) Attribute { return Attribute{n.key.Int(value)} }

// Of returns the attribute with a value.
func (s Seconds) Of(value time.Duration) Attribute { return Attribute{s.key.Float64(value.Seconds())} }

// Of returns the attribute with a value.
func (f Flag) Of(value bool) Attribute { return Attribute{f.key.Bool(value)} }

func text(key attribute.Key) Text       { return Text{key} }
func number(key attribute.Key) Number   { return Number{key} }
func seconds(key attribute.Key) Seconds { return Seconds{key} }
func flag(key attribute.Key) Flag       { return Flag{key} }

// pairs returns attributes in OpenTelemetry's form.
func pairs(attributes []Attribute) []attribute.KeyValue {
	all := make([]attribute.KeyValue, len(attributes))
	for i, a := range attributes {
		all[i] = a.pair
	}
	return all
}
