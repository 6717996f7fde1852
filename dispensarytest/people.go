package dispensarytest

import "github.com/dispensary-go/dispensary/dispensarytest/model"

// Patients are the patients of all clinics, and what they do on the platform. Actions make events,
// as on the real platform, and return them; see [Server].
type Patients struct{ server *Server }

// All returns all patients, in the order they were created.
func (p Patients) All() []model.Patient { return partsOf(p.server).people.Patients() }

// Get returns a patient by id.
func (p Patients) Get(id string) (model.Patient, bool) { return partsOf(p.server).people.Patient(id) }

// Cart returns what a patient is about to order: an in-office checkout fills it.
func (p Patients) Cart(patientID string) []model.Line {
	return partsOf(p.server).people.Cart(patientID)
}

// Register lets a person register with a clinic: patient.created.
func (p Patients) Register(in model.NewPatient) (out model.Patient, e model.Event, err error) {
	return partsOf(p.server).people.RegisterPatient(in)
}

// Edit lets a patient edit the own details: patient.updated.
func (p Patients) Edit(patientID string, in model.PatientChange) (out model.Patient, e model.Event, err error) {
	return partsOf(p.server).people.EditPatient(patientID, in)
}

// Plans are the treatment plans of all clinics, and what practitioners do with them. Actions make events,
// as on the real platform, and return them; see [Server].
type Plans struct{ server *Server }

// All returns all treatment plans, in the order they were created.
func (p Plans) All() []model.Plan { return partsOf(p.server).people.Plans() }

// Get returns a treatment plan by id.
func (p Plans) Get(id string) (model.Plan, bool) { return partsOf(p.server).people.Plan(id) }

// Create lets a practitioner write a plan for a patient:
// treatment_plan.created. A draft makes its event once it is activated: an
// assumption.
func (p Plans) Create(patientID string, in model.NewPlan) (out model.Plan, e model.Event, err error) {
	return partsOf(p.server).people.CreatePlan(patientID, in)
}

// Activate lets a practitioner send a draft to its patient:
// treatment_plan.created, unless its creation made that already. It has to name a
// patient and recommend something, but see the behavior incomplete-plan.
func (p Plans) Activate(planID string) (model.Plan, model.Event, error) {
	return partsOf(p.server).people.ActivatePlan(planID)
}

// Update lets a practitioner edit a plan that is not cancelled:
// treatment_plan.updated.
func (p Plans) Update(planID string, in model.PlanChange) (model.Plan, model.Event, error) {
	return partsOf(p.server).people.UpdatePlan(planID, in)
}

// UpdateRecommendation lets a practitioner edit the line of a plan that has the
// same variant: treatment_plan.recommendation.updated. That the event's data is
// the whole plan is an assumption.
func (p Plans) UpdateRecommendation(planID string, in model.Recommendation) (model.Plan, model.Event, error) {
	return partsOf(p.server).people.UpdateRecommendation(planID, in)
}

// Cancel lets a practitioner cancel an active plan: treatment_plan.updated.
func (p Plans) Cancel(planID string) (model.Plan, model.Event, error) {
	return partsOf(p.server).people.CancelPlan(planID)
}

// Protocols are the reusable plans of all practitioners. The API reads them alone, and has
// no event type for them, so changes make no events.
type Protocols struct{ server *Server }

// All returns all protocols, in the order they were created.
func (p Protocols) All() []model.Protocol { return partsOf(p.server).people.Protocols() }

// Get returns a protocol by id.
func (p Protocols) Get(id string) (model.Protocol, bool) {
	return partsOf(p.server).people.Protocol(id)
}

// Create lets a practitioner write a protocol. It is active unless it is a draft.
func (p Protocols) Create(in model.NewProtocol) (model.Protocol, error) {
	return partsOf(p.server).people.CreateProtocol(in)
}

// Update lets a practitioner edit a protocol that is not cancelled.
func (p Protocols) Update(protocolID string, in model.ProtocolChange) (model.Protocol, error) {
	return partsOf(p.server).people.UpdateProtocol(protocolID, in)
}

// Activate lets a practitioner activate a draft. The API shows no transitions of
// protocols, so they are an assumption.
func (p Protocols) Activate(protocolID string) (model.Protocol, error) {
	return partsOf(p.server).people.ActivateProtocol(protocolID)
}

// Cancel lets a practitioner cancel a draft or an active protocol. It keeps its
// recommendations. Both are assumptions.
func (p Protocols) Cancel(protocolID string) (model.Protocol, error) {
	return partsOf(p.server).people.CancelProtocol(protocolID)
}

// Orders are the orders of all patients. Actions make events,
// as on the real platform, and return them; see [Server].
type Orders struct{ server *Server }

// All returns all orders, in the order they were placed.
func (o Orders) All() []model.Order { return partsOf(o.server).people.Orders() }

// Get returns an order by id.
func (o Orders) Get(id string) (model.Order, bool) { return partsOf(o.server).people.Order(id) }

// Place lets a patient order: order.placed, whose data is not wrapped.
// Treatment plans have to be the patient's own, and active.
func (o Orders) Place(patientID string, in model.NewOrder) (out model.Order, e model.Event, err error) {
	return partsOf(o.server).people.PlaceOrder(patientID, in)
}

// Refund gives a patient money back; an amount of 0 is everything that is
// left. The payment total goes down. There is no event type for it, so it makes
// no event.
func (o Orders) Refund(orderID string, amount model.Cents) (out model.Order, err error) {
	return partsOf(o.server).people.RefundOrder(orderID, amount)
}

// Products is the catalog, and how it changes. Actions make events,
// as on the real platform, and return them; see [Server].
type Products struct{ server *Server }

// Brands returns all brands.
func (p Products) Brands() []model.Brand { return partsOf(p.server).people.Brands() }

// All returns all products that are not removed, in the catalog's order.
func (p Products) All() []model.Product { return partsOf(p.server).people.Products() }

// Get returns a product by id, a removed one too.
func (p Products) Get(id string) (model.Product, bool) { return partsOf(p.server).people.Product(id) }

// Variant returns a variant by id.
func (p Products) Variant(id string) (model.Variant, bool) {
	return partsOf(p.server).people.Variant(id)
}

// Create brings a product into the catalog: product.created, whose data
// is not wrapped.
func (p Products) Create(in model.NewProduct) (out model.Product, e model.Event, err error) {
	return partsOf(p.server).people.CreateProduct(in)
}

// Update changes a product: product.updated.
func (p Products) Update(productID string, in model.ProductChange) (model.Product, model.Event, error) {
	return partsOf(p.server).people.UpdateProduct(productID, in)
}

// Describe gives a product another description:
// product.description.updated.
func (p Products) Describe(productID, html string) (model.Product, model.Event, error) {
	return partsOf(p.server).people.DescribeProduct(productID, html)
}

// Remove takes a product out of the catalog: lists, searches and single products do not have
// it any more, nor its variants, and it cannot be recommended. Orders and plans keep what they
// refer to. The API cannot do that, and has no event type for it, so it makes no event.
func (p Products) Remove(productID string) error {
	return partsOf(p.server).people.RemoveProduct(productID)
}

// UpdateVariant changes a pack of a product: product.updated.
func (p Products) UpdateVariant(variantID string, in model.VariantChange) (out model.Variant, e model.Event, err error) {
	return partsOf(p.server).people.UpdateVariant(variantID, in)
}

// Clinics are the clinics of the platform, their practitioners, and the access they give and take. Actions make events,
// as on the real platform, and return them; see [Server].
type Clinics struct{ server *Server }

// All returns all clinics.
func (c Clinics) All() []model.Clinic { return partsOf(c.server).people.Clinics() }

// Practitioners returns all practitioners.
func (c Clinics) Practitioners() []model.Practitioner {
	return partsOf(c.server).people.Practitioners()
}

// RevokeKey lets the clinic end the integration that has the key:
// clinic_key.revoked, the last event it is sent; what it was still to be sent is not
// attempted any more. Requests with the key are refused from then on; bearer tokens
// without it stay good, an assumption.
func (c Clinics) RevokeKey(key string) (e model.Event, err error) {
	return partsOf(c.server).people.RevokeClinicKey(key)
}

// ActivateKey activates the integration of key and makes clinic_key.activated, as the
// first request with the key does. It also reconnects a revoked integration. It fails with
// [model.ErrState] if the integration is active.
//
// Assumption: a reconnected integration is active at once, not with the next request, and
// deliveries that the revocation stopped do not resume.
func (c Clinics) ActivateKey(key string) (e model.Event, err error) {
	return partsOf(c.server).people.ActivateClinicKey(key)
}

// Events returns the events that are kept, the oldest first: those of the last 30
// days, and not more than [WithEventLimit] says.
func (s *Server) Events() []model.Event { return partsOf(s).people.Events() }

// Overview returns so many rows of each kind at most. It takes as long in a large
// world as in a small one, which is what it is for: [Orders.All] copies all.
func (s *Server) Overview(latest int) model.Overview { return partsOf(s).people.Overview(latest) }
