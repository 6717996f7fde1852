package events

import "strings"

// Type says what happened, as object and verb: "order.placed". Types that are
// not listed here are valid: the platform may add some at any time.
// API section: "Event types".
type Type string

// The event types of the platform. API section: "Event types".
const (
	// ClinicKeyActivated: the first request with a valid clinic key was made.
	ClinicKeyActivated Type = "clinic_key.activated"

	// ClinicKeyRevoked: a clinic revoked the integration's access.
	ClinicKeyRevoked Type = "clinic_key.revoked"

	// OrderPlaced: an order was placed.
	OrderPlaced Type = "order.placed"

	// PatientCreated: a patient was created.
	PatientCreated Type = "patient.created"

	// PatientUpdated: a patient was updated.
	PatientUpdated Type = "patient.updated"

	// ProductCreated: a product was created.
	ProductCreated Type = "product.created"

	// ProductDescriptionUpdated: a product's description was updated.
	ProductDescriptionUpdated Type = "product.description.updated"

	// ProductUpdated: a product or one of its variants was updated.
	ProductUpdated Type = "product.updated"

	// TreatmentPlanCreated: a treatment plan was created. Assumption: it is
	// sent when the plan is activated, not when its draft is saved.
	TreatmentPlanCreated Type = "treatment_plan.created"

	// TreatmentPlanRecommendationUpdated: a recommendation of a treatment plan
	// was updated.
	TreatmentPlanRecommendationUpdated Type = "treatment_plan.recommendation.updated"

	// TreatmentPlanUpdated: a treatment plan was updated. Assumption: its
	// cancellation is reported this way.
	TreatmentPlanUpdated Type = "treatment_plan.updated"
)

// object returns the part of the type before the first period: the kind of
// object that the event is about, and the key its data is wrapped in.
func (t Type) object() string {
	object, _, _ := strings.Cut(string(t), ".")
	return object
}
