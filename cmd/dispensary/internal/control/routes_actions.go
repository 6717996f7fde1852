package control

import (
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// What an action of the platform's people answers with: the object as it left
// it, and the event it made, null where it made none.
type (
	patientActed struct {
		Patient model.Patient
		Event   *model.Event
	}
	planActed struct {
		Plan  model.Plan
		Event *model.Event
	}
	orderActed struct {
		Order model.Order
		Event *model.Event
	}
	productActed struct {
		Product model.Product
		Event   *model.Event
	}
	variantActed struct {
		Variant model.Variant
		Event   *model.Event
	}
	keyActed struct{ Event *model.Event }
)

// made is the event of an action; those without id were not made.
func made(e model.Event) *model.Event {
	if e.ID == "" {
		return nil
	}
	return &e
}

func patientOperations() []Operation {
	return []Operation{
		act("platform.register_patient", "POST", "/patients", "A person registers with a clinic, the first unless another is named: patient.created. Names and address are made up where they are empty.",
			func(c *call, in model.PatientCreate) (patientActed, error) {
				p, e, err := c.fake.Patients.Create(in)
				return patientActed{p, made(e)}, err
			}),
		act("platform.edit_patient", "PATCH", "/patients/{patient_id}", `A patient edits the own details: patient.updated. "" clears a field.`,
			func(c *call, in model.PatientUpdate) (patientActed, error) {
				p, e, err := c.fake.Patients.Update(c.path("patient_id"), in)
				return patientActed{p, made(e)}, err
			}),
		act("platform.place_order", "POST", "/patients/{patient_id}/orders", "A patient orders: order.placed. Empty, it is the plan, or the cart, or one pack of the first product that is available.",
			func(c *call, in model.OrderCreate) (orderActed, error) {
				o, e, err := c.fake.Orders.Place(c.path("patient_id"), in)
				return orderActed{o, made(e)}, err
			}),
		act("platform.refund_order", "POST", "/orders/{order_id}/refund", `A patient gets money back; without an amount all that is left. It makes no event.`,
			func(c *call, in refund) (orderActed, error) {
				o, err := c.fake.Orders.Refund(c.path("order_id"), in.Amount)
				return orderActed{Order: o}, err
			}),
	}
}

type refund struct{ Amount model.Cents }

func planOperations() []Operation {
	return []Operation{
		act("platform.create_plan", "POST", "/patients/{patient_id}/plans", "A practitioner writes a plan for a patient: treatment_plan.created, unless it is a draft.",
			func(c *call, in model.PlanCreate) (planActed, error) {
				p, e, err := c.fake.Plans.Create(c.path("patient_id"), in)
				return planActed{p, made(e)}, err
			}),
		act("platform.update_plan", "PATCH", "/plans/{plan_id}", "A practitioner edits a plan: treatment_plan.updated.",
			func(c *call, in model.PlanUpdate) (planActed, error) {
				p, e, err := c.fake.Plans.Update(c.path("plan_id"), in)
				return planActed{p, made(e)}, err
			}),
		act("platform.update_recommendation", "PATCH", "/plans/{plan_id}/recommendation", "A practitioner edits the line of a plan that has the same variant: treatment_plan.recommendation.updated.",
			func(c *call, in model.Recommendation) (planActed, error) {
				p, e, err := c.fake.Plans.UpdateRecommendation(c.path("plan_id"), in)
				return planActed{p, made(e)}, err
			}),
		do("platform.activate_plan", "POST", "/plans/{plan_id}/activate", "A practitioner sends a draft to its patient: treatment_plan.created.",
			func(c *call) (planActed, error) {
				p, e, err := c.fake.Plans.Activate(c.path("plan_id"))
				return planActed{p, made(e)}, err
			}),
		do("platform.cancel_plan", "POST", "/plans/{plan_id}/cancel", "A practitioner cancels an active plan: treatment_plan.updated.",
			func(c *call) (planActed, error) {
				p, e, err := c.fake.Plans.Cancel(c.path("plan_id"))
				return planActed{p, made(e)}, err
			}),
	}
}

type description struct{ DescriptionHTML string }

func catalogOperations() []Operation {
	return []Operation{
		act("platform.create_product", "POST", "/products", "A product comes into the catalog: product.created.",
			func(c *call, in model.ProductCreate) (productActed, error) {
				p, e, err := c.fake.Products.Create(in)
				return productActed{p, made(e)}, err
			}),
		act("platform.update_product", "PATCH", "/products/{product_id}", "A product changes: product.updated.",
			func(c *call, in model.ProductUpdate) (productActed, error) {
				p, e, err := c.fake.Products.Update(c.path("product_id"), in)
				return productActed{p, made(e)}, err
			}),
		act("platform.describe_product", "PUT", "/products/{product_id}/description", "A product gets another description: product.description.updated.",
			func(c *call, in description) (productActed, error) {
				p, e, err := c.fake.Products.Describe(c.path("product_id"), in.DescriptionHTML)
				return productActed{p, made(e)}, err
			}),
		act("platform.update_variant", "PATCH", "/variants/{variant_id}", `A pack of a product changes: product.updated. "" and 0 make a field null.`,
			func(c *call, in model.VariantUpdate) (variantActed, error) {
				v, e, err := c.fake.Products.UpdateVariant(c.path("variant_id"), in)
				return variantActed{v, made(e)}, err
			}),
	}
}

func clinicOperations() []Operation {
	return []Operation{
		list("clinic_keys.list", "/clinic_keys", "clinic_keys", "The keys of all integrations, the first clinic's first.", func(c *call) []string { return c.fake.ClinicKeys() }),
		do("platform.revoke_clinic_key", "POST", "/clinic_keys/{key}/revoke", "The clinic ends the integration that has the key: clinic_key.revoked.",
			func(c *call) (keyActed, error) {
				e, err := c.fake.Clinics.RevokeKey(c.path("key"))
				return keyActed{made(e)}, err
			}),
		do("platform.activate_clinic_key", "POST", "/clinic_keys/{key}/activate", "Activates an integration, or takes a revoked one back: clinic_key.activated.",
			func(c *call) (keyActed, error) {
				e, err := c.fake.Clinics.ActivateKey(c.path("key"))
				return keyActed{made(e)}, err
			}),
	}
}

func worldOperations() []Operation {
	return []Operation{
		list("patients.list", "/patients", "patients", "All patients, in the order they were created.", func(c *call) []model.Patient { return c.fake.Patients.All() },
			"id", "clinic_id", "email", "metadata_id"),
		list("plans.list", "/plans", "plans", "All treatment plans, in the order they were created.", func(c *call) []model.Plan { return c.fake.Plans.All() },
			"id", "clinic_id", "patient_id", "state"),
		list("orders.list", "/orders", "orders", "All orders, in the order they were placed.", func(c *call) []model.Order { return c.fake.Orders.All() },
			"id", "clinic_id", "patient_id"),
		list("products.list", "/products", "products", "All products, in the catalog's order.", func(c *call) []model.Product { return c.fake.Products.All() },
			"id", "brand_id", "name"),
		list("events.list", "/events", "events", "The events that are kept, the oldest first: those of the last 30 days, and 50,000 at most unless the platform was started otherwise.", func(c *call) []model.Event { return c.fake.Events() },
			"id", "type", "clinic_id"),
	}
}
