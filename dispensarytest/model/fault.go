package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// Effect is the kind of failure that a [Fault] causes.
type Effect string

// Effects on requests to the API. See [Fault] for the fields that they read.
const (
	// EffectDropAfterCommit closes the connection after the platform has performed the request
	// and before the first byte of the response. The caller cannot know the outcome.
	EffectDropAfterCommit Effect = "drop_after_commit"

	// EffectDropBeforeCommit closes the connection and does not perform the request.
	EffectDropBeforeCommit Effect = "drop_before_commit"

	// EffectErrorStatus rejects the request with Status and Messages, in the platform's own
	// format.
	EffectErrorStatus Effect = "error_status"

	// EffectLatency delays the request by Delay before the platform performs it. The delay
	// counts from the arrival of the request. Once the fault has fired, advancing the clock by
	// Delay ends it.
	EffectLatency Effect = "latency"

	// EffectProxyError rejects the request with Status (502 unless set) as a proxy in front of
	// the platform would: with an HTML page and without a request id.
	EffectProxyError Effect = "proxy_error"

	// EffectRateLimit responds with 429 to requests beyond Limit in any Window. Unless Silent
	// is set, Retry-After contains the time until the next request is accepted.
	EffectRateLimit Effect = "rate_limit"

	// EffectSlowBody sends the response body in pieces of Bytes (64 unless set) and waits for
	// Delay before each piece but the first.
	EffectSlowBody Effect = "slow_body"

	// EffectTokenExpired expires the access token when the request arrives. The refresh token
	// stays valid.
	EffectTokenExpired Effect = "token_expired"

	// EffectTokenInvalidated revokes the whole consent when the request arrives, including the
	// refresh token. The user has to authorize again.
	EffectTokenInvalidated Effect = "token_invalidated"

	// EffectTooManyRequests responds with 429. If RetryAfter is set, the response has a
	// Retry-After header in seconds, or as a date if RetryAfterDate is set.
	EffectTooManyRequests Effect = "too_many_requests"

	// EffectTruncatedBody closes the connection after Bytes of the response body, or after
	// half of it if Bytes is 0.
	EffectTruncatedBody Effect = "truncated_body"
)

// Effects on webhook deliveries.
const (
	// EffectDeliveryForged signs an attempt with another secret.
	EffectDeliveryForged Effect = "delivery_forged"

	// EffectDeliveryFuture signs an attempt with a timestamp that is Delay ahead (10 minutes
	// unless set).
	EffectDeliveryFuture Effect = "delivery_future"

	// EffectDeliveryLost skips the delivery. Only the event lists contain the event.
	EffectDeliveryLost Effect = "delivery_lost"

	// EffectDeliveryReordered delays a delivery until another one was attempted, or by Delay
	// (1 minute unless set).
	EffectDeliveryReordered Effect = "delivery_reordered"

	// EffectDeliveryRepeated sends a delivered event again, with a new signature.
	EffectDeliveryRepeated Effect = "delivery_repeated"

	// EffectDeliveryStale signs an attempt with a timestamp that is Delay old (10 minutes
	// unless set).
	EffectDeliveryStale Effect = "delivery_stale"
)

// Fault is a failure of the platform. The first fields select requests or deliveries, the
// others describe the effect on them.
//
// All waits follow the platform's clock. If the clock is frozen, the caller waits until it is
// advanced. Several faults can affect the same request. If more than one of them ends the
// request, the fault that was set first does.
type Fault struct {
	Effect    Effect
	Operation string  // affected requests, such as "patients.create", or empty for all
	EventType string  // affected deliveries, such as "order.placed", or empty for all
	Skip      int     // requests or deliveries to spare first
	Times     int     // maximum number of times it fires, or 0 for any number
	Chance    float64 // probability from 0 to 1 that it fires, or 0 for always
	Seed      uint64  // seed of the random choices for Chance: the same seed repeats the same choices

	Delay          time.Duration // of EffectLatency, EffectSlowBody and effects on deliveries
	Status         int           // of EffectErrorStatus and EffectProxyError
	Messages       []string      // of EffectErrorStatus, made up if empty
	RetryAfter     time.Duration // of EffectTooManyRequests, sent in whole seconds
	RetryAfterDate bool          // send Retry-After as a date
	Limit          int           // of EffectRateLimit
	Window         time.Duration // of EffectRateLimit
	Silent         bool          // EffectRateLimit omits Retry-After
	Bytes          int           // of EffectTruncatedBody and EffectSlowBody
}

// Validate returns an error for the first invalid field, or nil. Operation is invalid with an
// effect on deliveries, and EventType with an effect on requests.
func (f Fault) Validate() error {
	for _, wrong := range []struct {
		is   bool
		text string
	}{
		{!slices.Contains(Effects(), f.Effect), fmt.Sprintf("unknown effect %q", f.Effect)},
		{!f.named(f.Operation, f.ofDelivery(), operations.IDs()), f.misnamed("operation", f.Operation, operations.IDs())},
		{!f.named(f.EventType, !f.ofDelivery(), EventTypes()), f.misnamed("event type", f.EventType, EventTypes())},
		{f.Skip < 0 || f.Times < 0 || f.Bytes < 0, "Skip, Times and Bytes must not be negative"},
		{f.Delay < 0 || f.RetryAfter < 0, "Delay and RetryAfter must not be negative"},
		{f.Chance < 0 || f.Chance > 1, "Chance must be between 0 and 1"},
		{f.Effect == EffectErrorStatus && (f.Status < 400 || f.Status > 599), "EffectErrorStatus needs a Status from 400 to 599"},
		{f.Effect == EffectProxyError && f.Status != 0 && (f.Status < 400 || f.Status > 599), "EffectProxyError needs a Status from 400 to 599"},
		{(f.Effect == EffectLatency || f.Effect == EffectSlowBody) && f.Delay == 0, "EffectLatency and EffectSlowBody need a Delay"},
		{f.Effect == EffectRateLimit && (f.Limit < 1 || f.Window <= 0), "EffectRateLimit needs Limit and Window"},
	} {
		if wrong.is {
			return errors.New("dispensarytest: Fault: " + wrong.text)
		}
	}
	return nil
}

// named reports whether name is empty or, unless the fault's effect ignores this filter, a
// known name.
func (f Fault) named(name string, unused bool, known []string) bool {
	return name == "" || !unused && slices.Contains(known, name)
}

func (f Fault) misnamed(what, name string, known []string) string {
	if near := closestmatch.To(name, known); near != "" && near != name {
		return fmt.Sprintf("unknown %s %q (did you mean %q?)", what, name, near)
	}
	return fmt.Sprintf("%s has no %s %q", f.Effect, what, name)
}

// ofDelivery reports whether the fault affects webhooks.
func (f Fault) ofDelivery() bool { return slices.Contains(deliveryEffects, f.Effect) }

// String returns the effect and the operation or event type.
func (f Fault) String() string {
	return string(f.Effect) + " of " + cmp.Or(f.Operation, f.EventType, "any")
}

var deliveryEffects = []Effect{
	EffectDeliveryForged, EffectDeliveryFuture, EffectDeliveryLost, EffectDeliveryReordered, EffectDeliveryRepeated, EffectDeliveryStale,
}

// Effects returns all effects, effects on requests first.
func Effects() []Effect {
	return append([]Effect{
		EffectDropAfterCommit, EffectDropBeforeCommit, EffectErrorStatus, EffectLatency, EffectProxyError, EffectRateLimit,
		EffectSlowBody, EffectTokenExpired, EffectTokenInvalidated, EffectTooManyRequests, EffectTruncatedBody,
	}, deliveryEffects...)
}
