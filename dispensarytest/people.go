package dispensarytest

import "github.com/dispensary-go/dispensary/dispensarytest/model"

// Records are all records of one kind, of all clinics. Its methods return copies.
type Records[T any] interface {
	// All returns all records in the order of their creation. It omits removed products.
	All() []T

	// Get returns a record by id, a removed product too. It returns false if no record has
	// the id.
	Get(id string) (T, bool)
}

// Patients are the patients of all clinics, and their actions on the platform. Actions emit
// events, as on the real platform, and return them. See [Server].
type Patients interface {
	Records[model.Patient]

	// Cart returns the lines that an in-office checkout put into a patient's cart.
	Cart(patientID string) []model.Line

	// Create registers a person with a clinic: patient.created.
	Create(in model.PatientCreate) (model.Patient, model.Event, error)

	// Update changes details of a patient: patient.updated.
	Update(patientID string, in model.PatientUpdate) (model.Patient, model.Event, error)
}

// Plans are the treatment plans of all clinics, and the actions of practitioners on them.
// Actions emit events, as on the real platform, and return them. See [Server].
type Plans interface {
	Records[model.Plan]

	// Create writes a plan for a patient: treatment_plan.created. Assumption: a draft emits
	// the event with its activation.
	Create(patientID string, in model.PlanCreate) (model.Plan, model.Event, error)

	// Activate sends a draft to its patient: treatment_plan.created, unless the creation
	// emitted this event. The plan needs a patient and a recommendation. See the behavior
	// incomplete-plan.
	Activate(planID string) (model.Plan, model.Event, error)

	// Update edits a draft or an active plan: treatment_plan.updated.
	Update(planID string, in model.PlanUpdate) (model.Plan, model.Event, error)

	// UpdateRecommendation replaces the line of a plan with the same variant:
	// treatment_plan.recommendation.updated. Assumption: the event's data is the whole plan.
	UpdateRecommendation(planID string, in model.Recommendation) (model.Plan, model.Event, error)

	// Cancel cancels an active plan: treatment_plan.updated.
	Cancel(planID string) (model.Plan, model.Event, error)
}

// Orders are the orders of all patients. Actions emit events, as on the real platform, and
// return them. See [Server].
type Orders interface {
	Records[model.Order]

	// Place places the order of a patient: order.placed, with data that is not wrapped.
	// Treatment plans must be active plans of the patient.
	Place(patientID string, in model.OrderCreate) (model.Order, model.Event, error)

	// Refund pays money back to the patient and subtracts it from the payment total. An amount
	// of 0 is the whole rest. The API has no event type for it, so Refund emits no event.
	Refund(orderID string, amount model.Cents) (model.Order, error)
}

// Products are the catalog and its changes. Actions emit events, as on the real platform, and
// return them. See [Server].
type Products interface {
	Records[model.Product]

	// Create adds a product to the catalog: product.created, with data that is not wrapped.
	Create(in model.ProductCreate) (model.Product, model.Event, error)

	// Update changes a product: product.updated.
	Update(productID string, in model.ProductUpdate) (model.Product, model.Event, error)

	// Describe replaces the description of a product: product.description.updated.
	Describe(productID, html string) (model.Product, model.Event, error)

	// Remove removes a product with its variants from the catalog. Lists, searches and
	// recommendations do not find it anymore. Orders and plans keep their references. The API
	// has no event type for it, so Remove emits no event.
	Remove(productID string) error

	// UpdateVariant changes a pack of a product: product.updated.
	UpdateVariant(variantID string, in model.VariantUpdate) (model.Variant, model.Event, error)
}

// Protocols are the reusable plans of all practitioners. The API only reads them, and has no
// event type for them, so Create emits no event.
type Protocols interface {
	Records[model.Protocol]

	// Create writes a protocol. It is active unless it is a draft.
	Create(in model.ProtocolCreate) (model.Protocol, error)
}

// Clinics are the clinics, and the keys of their integrations. Actions emit events, as on the
// real platform, and return them. See [Server].
type Clinics interface {
	Records[model.Clinic]

	// RevokeKey revokes a clinic key: clinic_key.revoked, the last event that its integration
	// receives. The platform makes no other attempt for this integration, and rejects requests
	// with the key. Assumption: bearer tokens without the key stay valid.
	RevokeKey(key string) (model.Event, error)

	// ActivateKey activates the integration of key and emits clinic_key.activated, as the
	// first request with the key does. It also reconnects a revoked integration. It fails with
	// [model.ErrState] if the integration is active.
	//
	// Assumption: a reconnected integration is active at once, not with the next request,
	// and deliveries that the revocation stopped do not resume.
	ActivateKey(key string) (model.Event, error)
}
