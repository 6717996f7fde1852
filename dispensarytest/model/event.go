package model

import (
	"encoding/json"
	"strings"
	"time"
)

// Event types. API section: "Event types".
const (
	ClinicKeyActivated          = "clinic_key.activated"
	ClinicKeyRevoked            = "clinic_key.revoked"
	OrderPlaced                 = "order.placed"
	PatientCreated              = "patient.created"
	PatientUpdated              = "patient.updated"
	ProductCreated              = "product.created"
	ProductDescriptionUpdated   = "product.description.updated"
	ProductUpdated              = "product.updated"
	TreatmentPlanCreated        = "treatment_plan.created"
	TreatmentPlanUpdated        = "treatment_plan.updated"
	TreatmentPlanRecommendation = "treatment_plan.recommendation.updated"
)

// EventTypes returns all event types of the API, sorted.
func EventTypes() []string {
	return []string{
		ClinicKeyActivated, ClinicKeyRevoked, OrderPlaced, PatientCreated, PatientUpdated,
		ProductCreated, ProductDescriptionUpdated, ProductUpdated,
		TreatmentPlanCreated, TreatmentPlanRecommendation, TreatmentPlanUpdated,
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
}

// EventGroup is what an event's type is about: "patient", "treatment_plan".
func EventGroup(kind string) string {
	group, _, _ := strings.Cut(kind, ".")
	return group
}
