package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Event types. API section: "Event types".
const (
	EventClinicKeyActivated                 = "clinic_key.activated"
	EventClinicKeyRevoked                   = "clinic_key.revoked"
	EventOrderPlaced                        = "order.placed"
	EventPatientCreated                     = "patient.created"
	EventPatientUpdated                     = "patient.updated"
	EventProductCreated                     = "product.created"
	EventProductDescriptionUpdated          = "product.description.updated"
	EventProductUpdated                     = "product.updated"
	EventTreatmentPlanCreated               = "treatment_plan.created"
	EventTreatmentPlanUpdated               = "treatment_plan.updated"
	EventTreatmentPlanRecommendationUpdated = "treatment_plan.recommendation.updated"
)

// EventTypes returns all event types of the API, sorted.
func EventTypes() []string {
	return []string{
		EventClinicKeyActivated, EventClinicKeyRevoked, EventOrderPlaced, EventPatientCreated, EventPatientUpdated,
		EventProductCreated, EventProductDescriptionUpdated, EventProductUpdated,
		EventTreatmentPlanCreated, EventTreatmentPlanRecommendationUpdated, EventTreatmentPlanUpdated,
	}
}

// Event is an event that happened on the platform and not through the API. API section:
// "Event".
type Event struct {
	ID        string
	Type      string
	CreatedAt time.Time       // see the behavior event-times
	ClinicID  string          // empty on product events
	ObjectID  string          // the plan, patient, order, product or integration
	Data      json.RawMessage // as of the time of the event

	// NotSent is the reason why no webhook was sent: no endpoint, no subscription, no active
	// integration, or a delivery condition. It is empty if deliveries were planned. The
	// condition, an assumption, is that a live token of the clinic has the scope of Type.
	NotSent string
}

// Attempt is one request to the webhook endpoint.
type Attempt struct {
	At             time.Time
	Probe          bool   // the empty probe failed, so the event was not sent
	Signature      string // the SVC-Signature header
	RequestBody    []byte
	Status         int // 0 if there was no response
	ResponseHeader string
	ResponseBody   string
	IPAddress      string
	Err            string // the cause of the failure, empty on success
	Fault          Effect // the effect of a [Fault] on this attempt
}

// Delivery is one event for one integration, with all attempts so far.
type Delivery struct {
	ID            string
	EventID       string
	EventType     string
	IntegrationID string
	Attempts      []Attempt
	NextAttemptAt time.Time // zero if none is due
	Delivered     bool
	Stopped       bool // the endpoint was removed or disabled
	Revoked       bool // the clinic revoked the integration's key before the delivery
	Lost          bool // a [Fault] prevented the delivery
}

// String describes the result of the latest attempt, and either the reason for stopping or the
// time of the next attempt.
func (d Delivery) String() string {
	text := "no attempt yet"
	if n := len(d.Attempts); n > 0 {
		text = fmt.Sprintf("attempt %d: ok", n)
		if why := d.Attempts[n-1].Err; why != "" {
			text = fmt.Sprintf("attempt %d failed: %s", n, why)
		}
	}
	switch {
	case d.Revoked:
		text += "; the clinic revoked the integration's key"
	case d.Stopped:
		text += "; stopped with the endpoint"
	case !d.NextAttemptAt.IsZero() && len(d.Attempts) > 0:
		text += "; next attempt at " + d.NextAttemptAt.Format(time.RFC3339)
	}
	return text
}

// Endpoint is the integrator's registered webhook. A platform has one. API section:
// "Webhooks".
type Endpoint struct {
	URL          string
	Types        []string // subscribed event types
	Disabled     bool
	Reason       string    // the reason for disabling it
	FailingSince time.Time // zero unless the latest attempts failed
}

// Request is one request as the platform received it.
type Request struct {
	Seq       int       // 1 is the first request of this platform
	At        time.Time // time of arrival on the platform's clock
	ID        string    // X-Request-Id of the response
	Operation string    // for example "patients.create", empty if no operation matches
	Method    string
	Route     string   // the template, without the base URL
	Path      string   // escaped, as sent
	Query     string   // raw
	Status    int      // of the response, even if it was lost, or 0 if a fault prevented one
	UserID    string   // user of the token
	TokenID   string   // see [Token]
	Scopes    []string // scopes that the operation needs, empty if it checked none
	Granted   bool     // whether the token has all of Scopes
	Unknown   []Unread // unknown query parameters
	Unread    []Unread // unknown body fields
	Errors    []string // the messages of an error response
	Near      []string // for unknown operations: the operations on this path

	Faults      []Effect      // effects of a [Fault] on the request
	RetryAfter  time.Duration // time that the response asked the caller to wait
	RespondedAt time.Time     // just before the first byte of the response, on the platform's clock

	// Bodies are set if the platform records bodies. They contain JSON if it was sent, without
	// tokens, and are cut off if long. The response body is set even if a fault withheld it.
	RequestBody, ResponseBody []byte
}

// String returns one line for a test's log, without the query.
func (r Request) String() string {
	line := fmt.Sprintf("#%d %s %s %s → %d", r.Seq, cmp.Or(r.Operation, "(no operation)"), r.Method, r.Path, r.Status)
	if len(r.Errors) > 0 {
		line += " " + strings.Join(r.Errors, "; ")
	}
	for _, f := range r.Faults {
		line += " [" + string(f) + "]"
	}
	return line
}

// Unread is a name that the platform did not know and ignored.
type Unread struct {
	Name string
	Near string // the closest known name, empty if none is close
}

func (u Unread) String() string {
	if u.Near == "" {
		return fmt.Sprintf("%q", u.Name)
	}
	return fmt.Sprintf("%q (did you mean %q?)", u.Name, u.Near)
}
