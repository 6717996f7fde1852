package control

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// The responses of actions contain the changed object and the new event. The event is null if
// the action created none.
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

// made returns the event of an action, or nil if it has no id, because then none was created.
func made(e model.Event) *model.Event {
	if e.ID == "" {
		return nil
	}
	return &e
}

func patientOperations() []Operation {
	return []Operation{
		act("platform.register_patient", "POST", "/patients", "Registers a patient with a clinic, by default the first: patient.created. Empty names and an empty e-mail address are generated.",
			func(c *call, in model.PatientCreate) (patientActed, error) {
				p, e, err := c.fake.Patients.Create(in)
				return patientActed{p, made(e)}, err
			}),
		act("platform.edit_patient", "PATCH", "/patients/{patient_id}", `Edits a patient's details as the patient: patient.updated. "" clears a field.`,
			func(c *call, in model.PatientUpdate) (patientActed, error) {
				p, e, err := c.fake.Patients.Update(c.path("patient_id"), in)
				return patientActed{p, made(e)}, err
			}),
		act("platform.place_order", "POST", "/patients/{patient_id}/orders", "Places an order as the patient: order.placed. Without lines it orders the plans, the cart, or one pack of the first available product.",
			func(c *call, in model.OrderCreate) (orderActed, error) {
				o, e, err := c.fake.Orders.Place(c.path("patient_id"), in)
				return orderActed{o, made(e)}, err
			}),
		act("platform.refund_order", "POST", "/orders/{order_id}/refund", `Refunds an order to its patient, by default the whole remaining amount. It creates no event.`,
			func(c *call, in refund) (orderActed, error) {
				o, err := c.fake.Orders.Refund(c.path("order_id"), in.Amount)
				return orderActed{Order: o}, err
			}),
	}
}

type refund struct{ Amount model.Cents }

func planOperations() []Operation {
	return []Operation{
		act("platform.create_plan", "POST", "/patients/{patient_id}/plans", "Creates a plan for a patient as a practitioner: treatment_plan.created, unless it is a draft.",
			func(c *call, in model.PlanCreate) (planActed, error) {
				p, e, err := c.fake.Plans.Create(c.path("patient_id"), in)
				return planActed{p, made(e)}, err
			}),
		act("platform.update_plan", "PATCH", "/plans/{plan_id}", "Edits a plan as a practitioner: treatment_plan.updated.",
			func(c *call, in model.PlanUpdate) (planActed, error) {
				p, e, err := c.fake.Plans.Update(c.path("plan_id"), in)
				return planActed{p, made(e)}, err
			}),
		act("platform.update_recommendation", "PATCH", "/plans/{plan_id}/recommendation", "Edits the line of a plan with the same variant: treatment_plan.recommendation.updated.",
			func(c *call, in model.Recommendation) (planActed, error) {
				p, e, err := c.fake.Plans.UpdateRecommendation(c.path("plan_id"), in)
				return planActed{p, made(e)}, err
			}),
		do("platform.activate_plan", "POST", "/plans/{plan_id}/activate", "Sends a draft to its patient: treatment_plan.created.",
			func(c *call) (planActed, error) {
				p, e, err := c.fake.Plans.Activate(c.path("plan_id"))
				return planActed{p, made(e)}, err
			}),
		do("platform.cancel_plan", "POST", "/plans/{plan_id}/cancel", "Cancels an active plan: treatment_plan.updated.",
			func(c *call) (planActed, error) {
				p, e, err := c.fake.Plans.Cancel(c.path("plan_id"))
				return planActed{p, made(e)}, err
			}),
	}
}

type description struct{ DescriptionHTML string }

func catalogOperations() []Operation {
	return []Operation{
		act("platform.create_product", "POST", "/products", "Adds a product to the catalog: product.created.",
			func(c *call, in model.ProductCreate) (productActed, error) {
				p, e, err := c.fake.Products.Create(in)
				return productActed{p, made(e)}, err
			}),
		act("platform.update_product", "PATCH", "/products/{product_id}", "Changes a product: product.updated.",
			func(c *call, in model.ProductUpdate) (productActed, error) {
				p, e, err := c.fake.Products.Update(c.path("product_id"), in)
				return productActed{p, made(e)}, err
			}),
		act("platform.describe_product", "PUT", "/products/{product_id}/description", "Changes the description of a product: product.description.updated.",
			func(c *call, in description) (productActed, error) {
				p, e, err := c.fake.Products.Describe(c.path("product_id"), in.DescriptionHTML)
				return productActed{p, made(e)}, err
			}),
		act("platform.update_variant", "PATCH", "/variants/{variant_id}", `Changes a variant of a product: product.updated. "" and 0 set a field to null.`,
			func(c *call, in model.VariantUpdate) (variantActed, error) {
				v, e, err := c.fake.Products.UpdateVariant(c.path("variant_id"), in)
				return variantActed{v, made(e)}, err
			}),
	}
}

func clinicOperations() []Operation {
	return []Operation{
		list("clinic_keys.list", "/clinic_keys", "clinic_keys", "Lists the clinic keys of all integrations, starting with the first clinic.", func(c *call) []string { return c.fake.ClinicKeys() }),
		do("platform.revoke_clinic_key", "POST", "/clinic_keys/{key}/revoke", "Revokes the integration of a key as the clinic: clinic_key.revoked.",
			func(c *call) (keyActed, error) {
				e, err := c.fake.Clinics.RevokeKey(c.path("key"))
				return keyActed{made(e)}, err
			}),
		do("platform.activate_clinic_key", "POST", "/clinic_keys/{key}/activate", "Activates an integration, also after it was revoked: clinic_key.activated.",
			func(c *call) (keyActed, error) {
				e, err := c.fake.Clinics.ActivateKey(c.path("key"))
				return keyActed{made(e)}, err
			}),
	}
}

func worldOperations() []Operation {
	return []Operation{
		list("patients.list", "/patients", "patients", "Lists all patients in order of creation.", func(c *call) []model.Patient { return c.fake.Patients.All() },
			"id", "clinic_id", "email", "metadata_id"),
		list("plans.list", "/plans", "plans", "Lists all treatment plans in order of creation.", func(c *call) []model.Plan { return c.fake.Plans.All() },
			"id", "clinic_id", "patient_id", "state"),
		list("orders.list", "/orders", "orders", "Lists all orders in order of placement.", func(c *call) []model.Order { return c.fake.Orders.All() },
			"id", "clinic_id", "patient_id"),
		list("products.list", "/products", "products", "Lists all products in catalog order.", func(c *call) []model.Product { return c.fake.Products.All() },
			"id", "brand_id", "name"),
		list("events.list", "/events", "events", "Lists the stored events, oldest first: the events of the last 30 days, by default at most 50,000.", func(c *call) []model.Event { return c.fake.Events() },
			"id", "type", "clinic_id"),
	}
}

// verdict is the result of a check.
type verdict struct {
	Passed   bool
	Findings []string
}

// atMostCheck is the body of the check for N+1 reads. AtMost is the number of allowed single
// reads.
type atMostCheck struct{ AtMost int }

// leakCheck is the body of the check for leaks. Texts are outputs of an application, such as
// logs.
type leakCheck struct{ Texts []string }

func journalOperations() []Operation {
	requests := list("journal.list", "/journal", "requests", "Lists the stored requests, oldest first.", func(c *call) []model.Request { return c.fake.Journal.Requests() },
		"operation", "status", "user_id")
	return []Operation{
		requests,
		do("journal.reset", "DELETE", "/journal", "Removes all stored requests, so that a test can check its next step alone.",
			func(c *call) (nothing, error) { c.fake.Journal.Reset(); return nothing{}, nil }),
		do("journal.check_no_unexpected", "POST", "/journal/checks/no_unexpected", "Fails if a request used an unknown operation, query parameter or body field.",
			func(c *call) (verdict, error) {
				return judge(c.ctx, func(t testing.TB) { c.fake.Journal.CheckNoUnexpected(t) }), nil
			}),
		do("journal.check_backoff_honored", "POST", "/journal/checks/backoff_honored", "Fails if a caller repeated a request before the time in a Retry-After, or if no response carried one. Requests in flight do not count.",
			func(c *call) (verdict, error) {
				return judge(c.ctx, func(t testing.TB) { c.fake.Journal.CheckBackoffHonored(t) }), nil
			}),
		act("journal.check_no_n_plus_one", "POST", "/journal/checks/no_n_plus_one", "Fails if more than at_most objects of a list were then read one by one.",
			func(c *call, in atMostCheck) (verdict, error) {
				return judge(c.ctx, func(t testing.TB) { c.fake.Journal.CheckNoNPlusOne(t, in.AtMost) }), nil
			}),
		act("journal.check_no_leak", "POST", "/journal/checks/no_leak", "Fails if a text, such as a log, contains a secret or a value that identifies a patient.",
			func(c *call, in leakCheck) (verdict, error) {
				return judge(c.ctx, func(t testing.TB) { c.fake.CheckNoLeak(t, in.Texts...) }), nil
			}),
	}
}

// judge runs a check of Go tests outside a test.
func judge(ctx context.Context, check func(t testing.TB)) verdict {
	notes := &notebook{ctx: ctx}
	check(notes)
	return verdict{Passed: len(notes.findings) == 0, Findings: notes.findings}
}

// notebook records the failures of a check. It implements only the methods that checks call.
type notebook struct {
	testing.TB
	ctx      context.Context
	findings []string
}

// Context implements [testing.TB].
func (n *notebook) Context() context.Context { return n.ctx }

// Helper implements [testing.TB].
func (n *notebook) Helper() {}

// Error implements [testing.TB].
func (n *notebook) Error(args ...any) { n.note(fmt.Sprint(args...)) }

// Errorf implements [testing.TB].
func (n *notebook) Errorf(format string, args ...any) { n.note(fmt.Sprintf(format, args...)) }

// Logf implements [testing.TB]. It drops notes, which are not findings.
func (n *notebook) Logf(string, ...any) {}

func (n *notebook) note(text string) {
	n.findings = append(n.findings, strings.TrimPrefix(text, "dispensarytest: "))
}

// plain returns the text of err without its package prefix.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "dispensarytest: ") }
