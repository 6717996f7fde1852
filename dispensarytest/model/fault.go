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

// Effect is what a [Fault] does.
type Effect string

// Effects on requests to the API; see [Fault] for the fields they read.
const (
	// EffectDropAfterCommit breaks the connection off after the platform has done what
	// was asked, and before the first byte of its answer: the caller cannot know.
	EffectDropAfterCommit Effect = "drop_after_commit"

	// EffectDropBeforeCommit breaks the connection off with nothing done.
	EffectDropBeforeCommit Effect = "drop_before_commit"

	// EffectErrorStatus refuses with Status and Messages, in the platform's own shape.
	EffectErrorStatus Effect = "error_status"

	// EffectLatency lets the request wait for Delay before anything is done. The wait counts from
	// when the request came: once the fault has fired, a clock moved by Delay ends it.
	EffectLatency Effect = "latency"

	// EffectProxyError refuses with Status (502 unless set) in the name of a proxy in
	// front of the platform: an HTML page, without a request id.
	EffectProxyError Effect = "proxy_error"

	// EffectRateLimit refuses with 429 what is beyond Limit requests in any Window, and
	// says with Retry-After when there is room again, unless Silent.
	EffectRateLimit Effect = "rate_limit"

	// EffectSlowBody sends the answer in pieces of Bytes (64 unless set), with a wait of
	// Delay before each but the first.
	EffectSlowBody Effect = "slow_body"

	// EffectTokenExpired lets the access token expire as the request comes in; the
	// refresh token stays good.
	EffectTokenExpired Effect = "token_expired"

	// EffectTokenInvalidated ends the whole consent as the request comes in, the refresh
	// token included: the user has to authorize again.
	EffectTokenInvalidated Effect = "token_invalidated"

	// EffectTooManyRequests refuses with 429, and with Retry-After when RetryAfter is
	// set: in seconds, or as a date with RetryAfterDate.
	EffectTooManyRequests Effect = "too_many_requests"

	// EffectTruncatedBody breaks the connection off after Bytes of the answer's body, or
	// after half of it.
	EffectTruncatedBody Effect = "truncated_body"
)

// Effects on webhook deliveries.
const (
	// EffectDeliveryForged signs an attempt with another secret.
	EffectDeliveryForged Effect = "delivery_forged"

	// EffectDeliveryFuture signs an attempt with a timestamp that is Delay ahead: ten
	// minutes unless set.
	EffectDeliveryFuture Effect = "delivery_future"

	// EffectDeliveryLost never makes the delivery: only the event lists have the event.
	EffectDeliveryLost Effect = "delivery_lost"

	// EffectDeliveryReordered holds a delivery back until another one was attempted, or
	// for Delay: one minute unless set.
	EffectDeliveryReordered Effect = "delivery_reordered"

	// EffectDeliveryRepeated sends an event again that was delivered, signed anew.
	EffectDeliveryRepeated Effect = "delivery_repeated"

	// EffectDeliveryStale signs an attempt with a timestamp that is Delay old: ten
	// minutes unless set.
	EffectDeliveryStale Effect = "delivery_stale"
)

// Fault is something that goes wrong on the platform. Which requests or
// deliveries meet it is one half of it, what happens to them the other.
//
// All waits are on the platform's clock: on a frozen one the caller waits until
// the clock is advanced. Several faults can meet the same request; the
// first of those that end it does, in the order they were set in.
type Fault struct {
	Effect    Effect
	Operation string  // whose requests meet it: "patients.create"; empty is any
	EventType string  // whose deliveries meet it: "order.placed"; empty is any
	Skip      int     // how many pass unharmed first
	Times     int     // how often it fires; 0 is until it is removed
	Chance    float64 // between 0 and 1: how likely it fires each time; 0 is always
	Seed      uint64  // where Chance throws its dice; the same seed, the same throws

	Delay          time.Duration // of EffectLatency, EffectSlowBody and deliveries
	Status         int           // of EffectErrorStatus and EffectProxyError
	Messages       []string      // of EffectErrorStatus; made up where empty
	RetryAfter     time.Duration // of EffectTooManyRequests; whole seconds are sent
	RetryAfterDate bool          // Retry-After is a date
	Limit          int           // of EffectRateLimit
	Window         time.Duration // of EffectRateLimit
	Silent         bool          // EffectRateLimit sends no Retry-After
	Bytes          int           // of EffectTruncatedBody and EffectSlowBody
}

// Validate says what is wrong with a fault, if anything is.
func (f Fault) Validate() error {
	for _, wrong := range []struct {
		is   bool
		text string
	}{
		{!slices.Contains(Effects(), f.Effect), fmt.Sprintf("there is no effect %q", f.Effect)},
		{!f.named(f.Operation, f.ofDelivery(), operations.IDs()), f.misnamed("operation", f.Operation, operations.IDs())},
		{!f.named(f.EventType, !f.ofDelivery(), EventTypes()), f.misnamed("event type", f.EventType, EventTypes())},
		{f.Skip < 0 || f.Times < 0 || f.Bytes < 0, "a negative number"},
		{f.Delay < 0 || f.RetryAfter < 0, "a negative duration"},
		{f.Chance < 0 || f.Chance > 1, "Chance is between 0 and 1"},
		{f.Effect == EffectErrorStatus && (f.Status < 400 || f.Status > 599), "EffectErrorStatus needs a Status from 400 to 599"},
		{f.Effect == EffectProxyError && f.Status != 0 && (f.Status < 400 || f.Status > 599), "EffectProxyError needs a Status from 400 to 599"},
		{(f.Effect == EffectLatency || f.Effect == EffectSlowBody) && f.Delay == 0, "a Delay is needed"},
		{f.Effect == EffectRateLimit && (f.Limit < 1 || f.Window <= 0), "EffectRateLimit needs Limit and Window"},
	} {
		if wrong.is {
			return errors.New("dispensarytest: Fault: " + wrong.text)
		}
	}
	return nil
}

// named reports that a filter is a name the platform knows, or empty; on the
// wrong kind of fault only the latter.
func (f Fault) named(name string, unused bool, known []string) bool {
	return name == "" || !unused && slices.Contains(known, name)
}

func (f Fault) misnamed(what, name string, known []string) string {
	if near := closestmatch.To(name, known); near != "" && near != name {
		return fmt.Sprintf("there is no %s %q (did you mean %q?)", what, name, near)
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

// Effects returns all effects, those on requests first.
func Effects() []Effect {
	return append([]Effect{
		EffectDropAfterCommit, EffectDropBeforeCommit, EffectErrorStatus, EffectLatency, EffectProxyError, EffectRateLimit,
		EffectSlowBody, EffectTokenExpired, EffectTokenInvalidated, EffectTooManyRequests, EffectTruncatedBody,
	}, deliveryEffects...)
}
