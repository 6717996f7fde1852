package dispensarytest

import (
	"fmt"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// platformMoves are what the platform's own people do. Their answers are the
// rows that the actions return, under "Row", and the event, under "Event".
func platformMoves() []move {
	return []move{
		{"a patient registers", 3, func(m *walkModel, s step) prediction {
			email := address("p", s.a)
			status := 422
			p := prediction{}
			if !m.taken(email, -1) {
				status = 200
				m.patients = append(m.patients, &modelPatient{email: email})
				p = m.happened("patient.created", ref{"patient", len(m.patients) - 1}, "Row.ID")
			}
			return p.doing(status, "a patient registers as "+email, func(d *driver) (any, model.Event, error) {
				return result(d.platform.Patients.Register(model.NewPatient{Email: email}))
			})
		}},
		{"a patient edits", 3, func(m *walkModel, s step) prediction {
			at, email := choose(len(m.patients), s.a), address("p", s.b)
			status, p := 200, prediction{}
			switch {
			case at < 0:
				status = 404
			case m.taken(email, at):
				status = 422
			default:
				m.patients[at].email = email
				p = m.happened("patient.updated", ref{"patient", at}, "")
			}
			return p.doing(status, fmt.Sprintf("%v moves to %s", ref{"patient", at}, email), func(d *driver) (any, model.Event, error) {
				return result(d.platform.Patients.Edit(d.id(ref{"patient", at}), model.PatientChange{Email: &email}))
			})
		}},
		{"a practitioner writes a plan", 3, writePlanMove},
		{"a practitioner activates", 2, func(m *walkModel, s step) prediction {
			return m.planAction(s, "activates", "treatment_plan.created", m.activatePlan, func(d *driver, id string) (model.Plan, model.Event, error) {
				return d.platform.Plans.Activate(id)
			})
		}},
		{"a practitioner edits", 2, func(m *walkModel, s step) prediction {
			message := fmt.Sprint("Note ", s.b%10)
			edit := func(p *modelPlan) bool {
				if p.state == "cancelled" {
					return false
				}
				p.message = message
				return true
			}
			return m.planAction(s, "edits", "treatment_plan.updated", edit, func(d *driver, id string) (model.Plan, model.Event, error) {
				return d.platform.Plans.Update(id, model.PlanChange{PersonalMessage: &message})
			})
		}},
		{"a practitioner edits a line", 2, editLineMove},
		{"a practitioner cancels", 2, func(m *walkModel, s step) prediction {
			return m.planAction(s, "cancels", "treatment_plan.updated", m.cancelPlan, func(d *driver, id string) (model.Plan, model.Event, error) {
				return d.platform.Plans.Cancel(id)
			})
		}},
		{"a patient orders", 3, orderMove},
		{"an order is refunded", 1, func(m *walkModel, s step) prediction {
			at, status := choose(len(m.orders), s.a), 200
			switch {
			case at < 0:
				status = 404
			case m.orders[at].refunded:
				status = 422
			default:
				m.orders[at].refunded = true
			}
			return act(fmt.Sprintf("%v is refunded", ref{"order", at}), status, nil, func(d *driver) (any, error) {
				return d.platform.Orders.Refund(d.id(ref{"order", at}), 0)
			})
		}},
		{"the catalog changes", 1, func(m *walkModel, s step) prediction {
			at := ref{"product", s.a % 44}
			return m.happened("product.description.updated", at, "").doing(200, fmt.Sprintf("%v is described anew", at), func(d *driver) (any, model.Event, error) {
				return result(d.platform.Products.Describe(d.id(at), "<p>New.</p>"))
			})
		}},
		{"the clinic revokes its key", 1, func(m *walkModel, _ step) prediction {
			status, p := 422, prediction{}
			if !m.revoked {
				status, p = 200, m.happened("clinic_key.revoked", ref{kind: "integration"}, "")
				m.revoked = true
			}
			return p.doing(status, "the clinic revokes its key", func(d *driver) (any, model.Event, error) {
				e, err := d.platform.Clinics.RevokeKey(d.fake.ClinicKey())
				return nil, e, err
			})
		}},
		{"the clinic key is activated", 1, func(m *walkModel, _ step) prediction {
			status, p := 422, prediction{}
			if m.revoked || !m.activated {
				status, p = 200, m.happened("clinic_key.activated", ref{kind: "integration"}, "")
				m.revoked, m.activated = false, true
			}
			return p.doing(status, "the clinic key is activated", func(d *driver) (any, model.Event, error) {
				e, err := d.platform.Clinics.ActivateKey(d.fake.ClinicKey())
				return nil, e, err
			})
		}},
	}
}

func result[T any](row T, e model.Event, err error) (any, model.Event, error) { return row, e, err }

// happened records an event about an object, and binds the object where it was made.
func (m *walkModel) happened(kind string, about ref, path string) (p prediction) {
	at := m.emit(kind, about)
	if about.kind == "plan" {
		m.plans[about.n].updated = at
	}
	p.fields = map[string]any{"Event.Type": kind, "Event.CreatedAt": at.Format(time.RFC3339Nano)}
	p.fields["Event.ID"] = ref{"event", len(m.events) - 1}
	if path != "" {
		p = p.bind(path, about)
	}
	return p
}

// doing completes the prediction of an action.
func (p prediction) doing(status int, text string, run func(d *driver) (any, model.Event, error)) prediction {
	p.status = status
	p.request = request{text: text, act: func(d *driver) (any, error) {
		row, e, err := run(d)
		return map[string]any{"Row": row, "Event": e}, err
	}}
	return p
}

func writePlanMove(m *walkModel, s step) prediction {
	patient, draft := choose(len(m.patients), s.a), s.b%2 == 0
	text := fmt.Sprintf("a practitioner writes a plan for %v, draft %t", ref{"patient", patient}, draft)
	run := func(d *driver) (any, model.Event, error) {
		return result(d.platform.Plans.Create(d.id(ref{"patient", patient}), model.NewPlan{Draft: draft}))
	}
	if patient < 0 {
		return prediction{}.doing(404, text, run)
	}
	plan := modelPlan{patient: patient, state: "active", units: []int{1}, outside: true}
	if draft {
		plan.state = "draft"
	}
	made := m.addPlan(plan)
	if draft && !m.draftsMakeEvents {
		return prediction{fields: map[string]any{"Event.ID": ""}}.bind("Row.ID", made).doing(200, text, run)
	}
	return m.happened("treatment_plan.created", made, "Row.ID").doing(200, text, run)
}

// planAction is an action on one plan, which its state may not allow.
func (m *walkModel) planAction(s step, verb, kind string, change func(*modelPlan) bool, run func(*driver, string) (model.Plan, model.Event, error)) prediction {
	at := choose(len(m.plans), s.a)
	status, p := 200, prediction{}
	switch {
	case at < 0:
		status = 404
	case !change(m.plans[at]):
		status = 422
	default:
		p = m.happened(kind, ref{"plan", at}, "")
		p.fields["Row.State"] = m.plans[at].state
	}
	return p.doing(status, fmt.Sprintf("a practitioner %s %v", verb, ref{"plan", at}), func(d *driver) (any, model.Event, error) {
		return result(run(d, d.id(ref{"plan", at})))
	})
}

func editLineMove(m *walkModel, s step) prediction {
	at, units := choose(len(m.plans), s.a), 1+s.b%9
	text := fmt.Sprintf("a practitioner sets the first line of %v to %d", ref{"plan", at}, units)
	run := func(d *driver) (any, model.Event, error) {
		return result(d.platform.Plans.UpdateRecommendation(d.id(ref{"plan", at}), model.Recommendation{VariantID: d.firstVariant(at), UnitsToPurchase: units}))
	}
	switch {
	case at < 0:
		return prediction{}.doing(404, text, run)
	case m.plans[at].state == "cancelled":
		return prediction{}.doing(422, text, run)
	case len(m.plans[at].units) == 0: // a link's draft has no lines yet
		return prediction{}.doing(404, text, run)
	}
	m.plans[at].units[0] = units
	return m.happened("treatment_plan.recommendation.updated", ref{"plan", at}, "").doing(200, text, run)
}

func orderMove(m *walkModel, s step) prediction {
	patient, plan := choose(len(m.patients), s.a), -1
	if s.b%2 == 0 && len(m.plans) > 0 {
		plan = s.b / 2 % len(m.plans)
		if s.c%4 != 0 { // mostly the plan's own patient
			patient = m.plans[plan].patient
		}
	}
	status := 200
	order := modelOrder{patient: patient, plan: plan}
	units := []int{1}
	switch {
	case patient < 0:
		status = 404
	case plan >= 0 && m.plans[plan].patient != patient, plan >= 0 && m.plans[plan].state != "active":
		status = 422
	case plan >= 0 && len(m.plans[plan].units) > 0:
		units = m.plans[plan].units
	case plan < 0 && m.patients[patient].cart != nil && len(m.patients[patient].cart.units) > 0:
		order.plan, units = m.patients[patient].cart.plan, m.patients[patient].cart.units
	}
	p := prediction{}
	if status == 200 {
		m.patients[patient].cart = nil
		m.orders = append(m.orders, &order)
		p = m.happened("order.placed", ref{"order", len(m.orders) - 1}, "Row.ID")
		p.fields["Row.Lines.#"] = len(units)
		for i, n := range units {
			p.fields[fmt.Sprintf("Row.Lines.%d.Quantity", i)] = n
		}
	}
	return p.doing(status, fmt.Sprintf("%v orders, plan %d", ref{"patient", patient}, plan), func(d *driver) (any, model.Event, error) {
		var in model.NewOrder
		if plan >= 0 {
			in.PlanIDs = []string{d.id(ref{"plan", plan})}
		}
		return result(d.platform.Orders.Place(d.id(ref{"patient", patient}), in))
	})
}
