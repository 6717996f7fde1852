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

// Event is something that happened on the platform, other than through the API.
// API section: "Event".
type Event struct {
	ID        string
	Type      string
	CreatedAt time.Time       // see the behavior event-times
	ClinicID  string          // empty on product events
	ObjectID  string          // the plan, patient, order, product or integration it is about
	Data      json.RawMessage // as it stood when the event happened

	// NotSent is the reason why no webhook was sent: no endpoint, no subscription, no active
	// integration, or a delivery condition. It is empty if deliveries were planned. The
	// condition, an assumption, is that a live token of the clinic has the scope of Type.
	NotSent string
}

// Attempt is one request to the webhook endpoint.
type Attempt struct {
	At             time.Time
	Probe          bool   // it ended with the empty probe; the event was not sent
	Signature      string // the SVC-Signature header
	RequestBody    []byte
	Status         int // 0 when there was no answer
	ResponseHeader string
	ResponseBody   string
	IPAddress      string
	Err            string // what made it a failure; empty on success
	Fault          Effect // what a [Fault] did to it
}

// Delivery is one event for one integration, with every attempt made so far.
type Delivery struct {
	ID            string
	EventID       string
	EventType     string
	IntegrationID string
	Attempts      []Attempt
	NextAttemptAt time.Time // zero when none is due
	Delivered     bool
	Stopped       bool // the endpoint went away or was disabled
	Revoked       bool // the clinic revoked the integration's key before it was delivered
	Lost          bool // a [Fault] kept it from being made
}

// String says where the delivery stands.
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

// Endpoint is the integrator's registered webhook: one per platform.
// API section: "Webhooks".
type Endpoint struct {
	URL          string
	Types        []string // event types it is subscribed to
	Disabled     bool
	Reason       string    // why it is disabled
	FailingSince time.Time // zero unless the latest attempts failed
}
