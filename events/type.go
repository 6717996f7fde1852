package events

import "strings"

// Type is the kind of an event as object and verb: "order.placed". Other types than the listed
// ones are valid, because the platform may add some at any time.
// API section: "Event types".
type Type string

// The event types of the platform. API section: "Event types".
const (
	// TypeClinicKeyActivated: the first request with a valid clinic key was made.
	TypeClinicKeyActivated Type = "clinic_key.activated"

	// TypeClinicKeyRevoked: a clinic revoked the integration's access.
	TypeClinicKeyRevoked Type = "clinic_key.revoked"

	// TypeOrderPlaced: an order was placed.
	TypeOrderPlaced Type = "order.placed"

	// TypePatientCreated: a patient was created.
	TypePatientCreated Type = "patient.created"

	// TypePatientUpdated: a patient was updated.
	TypePatientUpdated Type = "patient.updated"

	// TypeProductCreated: a product was created.
	TypeProductCreated Type = "product.created"

	// TypeProductDescriptionUpdated: a product's description was updated.
	TypeProductDescriptionUpdated Type = "product.description.updated"

	// TypeProductUpdated: a product or one of its variants was updated.
	TypeProductUpdated Type = "product.updated"

	// TypeTreatmentPlanCreated: a treatment plan was created. Assumption: the platform sends it
	// on activation, not when a draft is saved.
	TypeTreatmentPlanCreated Type = "treatment_plan.created"

	// TypeTreatmentPlanRecommendationUpdated: a recommendation of a treatment plan
	// was updated.
	TypeTreatmentPlanRecommendationUpdated Type = "treatment_plan.recommendation.updated"

	// TypeTreatmentPlanUpdated: a treatment plan was updated. Assumption: a cancellation also
	// sends this type.
	TypeTreatmentPlanUpdated Type = "treatment_plan.updated"
)

// object returns the part of the type before the first period: the kind of object that the
// event is about, and the key around its data.
func (t Type) object() string {
	object, _, _ := strings.Cut(string(t), ".")
	return object
}
