package model

import (
	"encoding/json"
	"fmt"
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
