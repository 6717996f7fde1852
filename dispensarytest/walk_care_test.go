package dispensarytest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func (w *walk) createPatient() {
	body := map[string]any{"email": w.address(), "first_name": "Walk", "last_name": "In", "metadata": map[string]any{"id": w.metadataID()}}
	if w.odds(8) {
		delete(body, "last_name")
	}
	p := &walkPatient{email: body["email"].(string), metadata: body["metadata"].(map[string]any)["id"].(string)}
	switch a, allowed := w.call("POST", "patients:write", "/clinic/patients", body); {
	case !allowed:
	case body["last_name"] == nil || w.taken(p.email, nil):
		a.ok(422)
	default:
		p.id = a.ok(201, "patient", "id").(string)
		w.patients = append(w.patients, p)
		w.seesPatient(a, p)
	}
}

func (w *walk) updatePatient() {
	p := one(w, w.patients)
	email, metadata := w.address(), w.metadataID()
	switch a, allowed := w.call("PATCH", "patients:write", "/clinic/patients/"+idOf(p, patientID), map[string]any{"email": email, "metadata": map[string]any{"id": metadata}}); {
	case !allowed:
	case p == nil:
		a.ok(404)
	case w.taken(email, p):
		a.ok(422)
	default:
		p.email, p.metadata = email, metadata
		w.seesPatient(a, p)
	}
}

func (w *walk) readPatients() {
	if w.odds(3) {
		if a, allowed := w.call("GET", "patients:read", "/clinic/patients", nil); allowed {
			require.EqualValues(w.t, len(w.patients), a.ok(200, "meta", "total_count"))
		}
		return
	}
	p := one(w, w.patients)
	switch a, allowed := w.call("GET", "patients:read", "/clinic/patients/"+idOf(p, patientID), nil); {
	case !allowed:
	case p == nil:
		a.ok(404)
	default:
		w.seesPatient(a, p)
	}
}

func (w *walk) seesPatient(a response, p *walkPatient) {
	w.t.Helper()
	got := a.body["patient"].(map[string]any)
	var metadata any
	if p.metadata != "" {
		metadata = p.metadata
	}
	require.Equal(w.t, []any{p.id, p.email, metadata}, []any{got["id"], got["email"], got["metadata"].(map[string]any)["id"]})
}

func (w *walk) findMetadata() {
	id, kind, found := w.metadataID(), []string{"patient", "treatment_plan"}[w.dice.IntN(2)], 0
	a, allowed := w.call("GET", "patients:read", "/clinic/metadata?id="+id+"&type="+kind, nil)
	if !allowed {
		return
	}
	for _, p := range w.patients {
		if kind == "patient" && p.metadata == id {
			found++
		}
	}
	for _, p := range w.plans {
		if kind == "treatment_plan" && p.metadata == id && w.reads(p) {
			found++
		}
	}
	require.EqualValues(w.t, found, a.ok(200, "meta", "total_count"))
}

// reads reports whether the latest caller may read a plan.
func (w *walk) reads(p *walkPlan) bool {
	return !p.outside || w.grant.has("patients:treatment_plan_history")
}

// planCall makes a call about one plan. It returns nil if the platform must reject the call.
func (w *walk) planCall(method, scope, suffix string, body any) (response, *walkPlan) {
	w.t.Helper()
	p := one(w, w.plans)
	switch a, allowed := w.call(method, scope, "/clinic/treatment_plans/"+idOf(p, planID)+suffix, body); {
	case !allowed:
		return a, nil
	case p == nil:
		a.ok(404)
		return a, nil
	case !w.reads(p):
		a.ok(403)
		return a, nil
	default:
		return a, p
	}
}

func (w *walk) seesPlan(a response, p *walkPlan) {
	w.t.Helper()
	got := a.body["treatment_plan"].(map[string]any)
	units := []any(nil)
	for _, r := range got["recommendations"].([]any) {
		units = append(units, r.(map[string]any)["units_to_purchase"])
	}
	var start any
	if !p.start.IsZero() {
		start = p.start.Format(time.DateOnly)
	}
	require.Equal(w.t, []any{p.id, p.state, p.units, view.Time(p.created), view.Time(p.updated), start},
		[]any{got["id"], got["state"], units, got["created_at"], got["updated_at"], got["available_at"]})
}

// lines returns recommendations of one to three variants.
func (w *walk) lines() (units, body []any) {
	for i := range 1 + w.dice.IntN(3) {
		n := float64(1 + w.dice.IntN(4))
		units = append(units, n)
		body = append(body, map[string]any{"variant_id": w.variants[i], "units_to_purchase": n})
	}
	return units, body
}

// addPlan stores a new plan.
func (w *walk) addPlan(p *walkPlan) {
	p.created, p.updated = w.now, w.now
	if p.state == "active" {
		p.start = w.now
	}
	w.plans = append(w.plans, p)
}

func (w *walk) createPlan() {
	patient := one(w, w.patients)
	p := &walkPlan{patient: patient, state: []string{"active", "draft"}[w.dice.IntN(2)], metadata: w.metadataID()}
	units, body := w.lines()
	p.units = units
	a, allowed := w.call("POST", "clinic:write", "/clinic/patients/"+idOf(patient, patientID)+"/treatment_plans", map[string]any{
		"practitioner_id": w.practitioner, "recommendations": body, "state": p.state, "metadata": map[string]any{"id": p.metadata},
	})
	switch {
	case !allowed:
	case !w.grant.has("patients:read"):
		a.ok(403)
	case patient == nil:
		a.ok(404)
	default:
		p.id = a.ok(201, "treatment_plan", "id").(string)
		w.addPlan(p)
		w.seesPlan(a, p)
	}
}

// link creates a draft without a patient or recommendations.
func (w *walk) link() {
	body := map[string]any{"treatment_plan": map[string]any{"practitioner_id": w.practitioner}}
	if a, allowed := w.call("POST", "clinic:write", "/clinic/dynamic_links/treatment_plans", body); allowed {
		w.addPlan(&walkPlan{id: a.ok(200, "dynamic_links", "treatment_plan", "id").(string), state: "draft"})
	}
}

func (w *walk) readPlan() {
	if w.odds(2) {
		patient, found := one(w, w.patients), 0
		a, allowed := w.call("GET", "patients:read", "/clinic/patients/"+idOf(patient, patientID)+"/treatment_plans", nil)
		switch {
		case !allowed:
		case patient == nil:
			a.ok(404)
		default:
			for _, p := range w.plans {
				if p.patient == patient && w.reads(p) {
					found++
				}
			}
			require.EqualValues(w.t, found, a.ok(200, "meta", "total_count"))
		}
		return
	}
	if a, p := w.planCall("GET", "patients:read", "", nil); p != nil {
		w.seesPlan(a, p)
	}
}

// turn applies a method to a plan, if the plan's state allows it.
func (w *walk) turn(p *walkPlan, verb string, units []any) bool {
	switch {
	case verb == "activate" && p.state == "draft" && p.patient != nil && len(p.units) > 0:
		p.state, p.start = "active", w.now
	case verb == "cancel" && p.state == "active":
		p.state, p.units = "cancelled", nil
	case verb == "update" && p.state != "cancelled":
		p.units = units
	default:
		return false
	}
	if w.now.After(p.updated) { // the time of a later event, if any
		p.updated = w.now
	}
	return true
}

var verbs = []string{"activate", "activate", "cancel", "update"}

func (w *walk) changePlan() {
	verb, suffix := verbs[w.dice.IntN(len(verbs))], ""
	units, body := w.lines()
	var sent any = map[string]any{"recommendations": body}
	if verb != "update" {
		suffix, sent = "/"+verb, nil
	}
	a, p := w.planCall("PATCH", "clinic:write", suffix, sent)
	switch {
	case p == nil:
	case !w.turn(p, verb, units):
		a.ok(422)
	default:
		a.ok(200)
		w.seesPlan(a, p)
	}
}

func (w *walk) checkOut() {
	switch a, p := w.planCall("POST", "clinic:write", "/in_office_checkout", nil); {
	case p == nil:
	case p.state != "active":
		a.ok(422)
	default:
		a.ok(201)
		copied := *p
		p.patient.cart = &copied
	}
}

func (w *walk) register() {
	email := w.address()
	w.did("register %s", email)
	p, e, err := w.fake.Patients.Create(model.PatientCreate{Email: email})
	if w.taken(email, nil) {
		require.ErrorIs(w.t, err, model.ErrValidation)
		return
	}
	w.happened("patient.created", p.ID, e, err)
	w.patients = append(w.patients, &walkPatient{id: p.ID, email: email})
}

func (w *walk) edit() {
	p, email := one(w, w.patients), w.address()
	w.did("edit %s", email)
	_, e, err := w.fake.Patients.Update(idOf(p, patientID), model.PatientUpdate{Email: &email})
	switch {
	case p == nil:
		require.ErrorIs(w.t, err, model.ErrNotFound)
	case w.taken(email, p):
		require.ErrorIs(w.t, err, model.ErrValidation)
	default:
		w.happened("patient.updated", p.id, e, err)
		p.email = email
	}
}

func (w *walk) writePlan() {
	patient, draft := one(w, w.patients), w.odds(2)
	w.did("write a plan, draft %t", draft)
	made, e, err := w.fake.Plans.Create(idOf(patient, patientID), model.PlanCreate{Draft: draft})
	if patient == nil {
		require.ErrorIs(w.t, err, model.ErrNotFound)
		return
	}
	p := &walkPlan{id: made.ID, patient: patient, state: "active", units: []any{1.0}, outside: true}
	if draft {
		require.NoError(w.t, err)
		require.Empty(w.t, e.ID)
		p.state = "draft"
		w.addPlan(p)
		return
	}
	w.addPlan(p)
	p.updated = w.happened("treatment_plan.created", p.id, e, err)
}

// act changes a plan like a practitioner on the platform.
func (w *walk) act() {
	p, verb := one(w, w.plans), verbs[w.dice.IntN(len(verbs))]
	w.did("%s plan %s", verb, idOf(p, planID))
	kind := "treatment_plan.updated"
	var e model.Event
	var err error
	switch verb {
	case "activate":
		kind = "treatment_plan.created"
		_, e, err = w.fake.Plans.Activate(idOf(p, planID))
	case "cancel":
		_, e, err = w.fake.Plans.Cancel(idOf(p, planID))
	default:
		_, e, err = w.fake.Plans.Update(idOf(p, planID), model.PlanUpdate{PersonalMessage: new("Note")})
	}
	switch {
	case p == nil:
		require.ErrorIs(w.t, err, model.ErrNotFound)
	case !w.turn(p, verb, p.units):
		require.Error(w.t, err)
	default:
		p.updated = w.happened(kind, p.id, e, err)
	}
}

func (w *walk) order() {
	patient, p := one(w, w.patients), one(w, w.plans)
	in, units := model.OrderCreate{}, []any{1.0}
	switch {
	case w.odds(2) || p == nil:
		p = nil
		if patient != nil && patient.cart != nil {
			units = patient.cart.units
		}
	case !w.odds(4) && p.patient != nil: // mostly the plan's own patient
		patient = p.patient
	}
	if p != nil {
		in.PlanIDs, units = []string{p.id}, p.units
	}
	w.did("order of %v", in.PlanIDs)
	o, e, err := w.fake.Orders.Place(idOf(patient, patientID), in)
	switch {
	case patient == nil:
		require.ErrorIs(w.t, err, model.ErrNotFound)
	case p != nil && (p.patient != patient || p.state != "active"):
		require.Error(w.t, err)
	default:
		w.happened("order.placed", o.ID, e, err)
		patient.cart, patient.orders = nil, patient.orders+1
		var bought []any
		for _, l := range o.Lines {
			bought = append(bought, float64(l.Quantity))
		}
		require.Equal(w.t, units, bought)
		if a, allowed := w.call("GET", "patients:order_history", "/clinic/orders?page[size]=1&patient_id="+patient.id, nil); allowed {
			require.EqualValues(w.t, patient.orders, a.ok(200, "meta", "total_count"))
		}
	}
}
