package httpapi

import (
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func (c *call) viewPlan(p *model.Plan) view.PlanView[view.DosageView] {
	return view.Plan(c.api.Origin, c.behaviors.InviteDrafts, p, view.Dosage)
}

// planOf returns a plan of the clinic. Plans from outside the API need the scope for
// historical plans.
func (c *call) planOf(w *store.World, id string) (*model.Plan, error) {
	p, known := w.Plans.Rows[id]
	if !known || p.ClinicID != c.clinicID() {
		return nil, notFound()
	}
	if p.Outside {
		if err := c.require(operations.ScopePlanHistory); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func listPlans(c *call, w *store.World, patient *model.Patient) (reply, error) {
	field, descending, err := c.params.order("created_at", "updated_at")
	if err != nil {
		return reply{}, err
	}
	outside := c.token.Has(operations.ScopePlanHistory)
	rows := table.Where(w.Plans, func(p *model.Plan) bool { return p.PatientID == patient.ID && (outside || !p.Outside) })
	switch {
	case field == "updated_at":
		sortRows(rows, descending, func(p *model.Plan) int64 { return p.UpdatedAt.UnixNano() })
	case field != "" || descending:
		sortRows(rows, descending, func(p *model.Plan) int64 { return p.CreatedAt.UnixNano() })
	}
	return listOf(c, rows, view.PlanItem), nil
}

func getPlan(c *call, w *store.World) (reply, error) {
	p, err := c.planOf(w, c.arg)
	if err != nil {
		return reply{}, err
	}
	return ok(c.viewPlan(p)), nil
}

// createPlan creates an active plan unless the state is draft. It requires clinic:write and,
// as the API documents for that scope, patients:read.
func createPlan(c *call, w *store.World) (reply, error) {
	if err := c.require(operations.ScopePatientsRead); err != nil {
		return reply{}, err
	}
	patient, known := w.PatientOf(c.clinicID(), c.arg)
	if !known {
		return reply{}, notFound()
	}
	p := &model.Plan{ClinicID: c.clinicID(), PatientID: patient.ID, CreatedAt: c.now, UpdatedAt: c.now}
	p.PractitionerID = c.form.word("practitioner_id", true).is
	if _, known := w.PractitionerOf(c.clinicID(), p.PractitionerID); p.PractitionerID != "" && !known {
		c.form.complain("practitioner_id", "must exist")
	}
	p.State = c.form.choice("state", model.PlanStateDraft, model.PlanStateActive).or(model.PlanStateActive)
	if err := readPlan(w, c.form, p); err != nil {
		return reply{}, err
	}
	if p.State == model.PlanStateActive {
		p.AvailableAt = c.now
	}
	p.ID = w.NewID("treatment_plan")
	table.Put(&w.Plans, p.ID, p)
	return created(c.viewPlan(p)), nil
}

// updatePlan keeps the state, and rejects changes of a canceled plan. Both are assumptions.
func updatePlan(c *call, w *store.World) (reply, error) {
	old, err := c.planOf(w, c.arg)
	if err != nil {
		return reply{}, err
	}
	p := *old
	if err := readPlan(w, c.form, &p); err != nil {
		return reply{}, err
	}
	if old.State == model.PlanStateCanceled && !c.behaviors.EditCanceled {
		return reply{}, wrongState("Treatment plan is cancelled")
	}
	if store.TouchPlan(&p, c.now); old.State == model.PlanStateDraft && c.behaviors.UpdateActivates && store.PlanUnready(&p, c.behaviors) == "" {
		store.ActivatePlan(&p, c.now)
	}
	table.Put(&w.Plans, p.ID, &p)
	return ok(c.viewPlan(&p)), nil
}

// readPlan reads the fields that create and update share. Assumption: an empty list of
// recommendations is as invalid as a missing one.
func readPlan(w *store.World, f *form, p *model.Plan) error {
	f.prose("personal_message").change(&p.PersonalMessage)
	readMetadata(f, &p.MetadataID)
	lines := f.objects("recommendations")
	if len(lines.is) == 0 {
		f.complain("recommendations", "can't be blank")
	}
	p.Recommendations = make([]model.Recommendation, 0, len(lines.is))
	for _, line := range lines.is {
		p.Recommendations = append(p.Recommendations, readRecommendation(w, line))
	}
	return f.err()
}

// readRecommendation requires variant_id and units_to_purchase. This is an assumption, because
// the API does not state the required fields. The parts of a dosage must be strings: an
// assumption.
func readRecommendation(w *store.World, f *form) model.Recommendation {
	before := len(*f.errs)
	r := model.Recommendation{VariantID: f.word("variant_id", true).is, Refill: f.truth("refill").is}
	if _, known := w.Variant(r.VariantID); r.VariantID != "" && !known {
		f.complain("variant_id", "must exist")
	}
	units := f.amount("units_to_purchase")
	if r.UnitsToPurchase = units.is; (!units.sent || units.null) && len(*f.errs) == before {
		f.complain("units_to_purchase", "can't be blank")
	}
	if d := f.object("dosage"); d != nil {
		r.Dosage = &model.Dosage{
			Amount: d.text("amount").is, Frequency: d.text("frequency").is, Duration: d.text("duration").is,
			Format: d.text("format").is, AdditionalInfo: d.prose("additional_info").is,
		}
	}
	return r
}

func activatePlan(c *call, w *store.World) (reply, error) {
	return c.movePlan(w, func(p *model.Plan) error {
		if why := store.PlanUnready(p, c.behaviors); why != "" {
			return wrongState("Treatment plan " + why)
		}
		store.ActivatePlan(p, c.now)
		return nil
	}, model.PlanStateDraft)
}

func cancelPlan(c *call, w *store.World) (reply, error) {
	from := []string{model.PlanStateActive}
	if c.behaviors.CancelDrafts {
		from = append(from, model.PlanStateDraft)
	}
	return c.movePlan(w, func(p *model.Plan) error { store.CancelPlan(p, c.now); return nil }, from...)
}

// movePlan moves a plan from one of the states in from to the next state.
func (c *call) movePlan(w *store.World, move func(*model.Plan) error, from ...string) (reply, error) {
	old, err := c.planOf(w, c.arg)
	if err != nil {
		return reply{}, err
	}
	if err := c.form.err(); err != nil { // the operation has no fields
		return reply{}, err
	}
	if !slices.Contains(from, old.State) {
		return reply{}, wrongState("Treatment plan is not " + strings.Join(from, " or "))
	}
	p := *old
	if err := move(&p); err != nil {
		return reply{}, err
	}
	table.Put(&w.Plans, p.ID, &p)
	return ok(c.viewPlan(&p)), nil
}

// checkoutPlan fills the patient's cart from the plan. Assumption: the plan must be active.
func checkoutPlan(c *call, w *store.World) (reply, error) {
	p, err := c.planOf(w, c.arg)
	if err != nil {
		return reply{}, err
	}
	if err := c.form.err(); err != nil { // the operation has no fields
		return reply{}, err
	}
	if p.State != model.PlanStateActive && !(p.State == model.PlanStateDraft && c.behaviors.CheckoutDrafts) {
		return reply{}, wrongState("Treatment plan is not active")
	}
	if why := store.PlanLacks(p); why != "" { // without a patient there is no cart, and without recommendations the cart is empty
		return reply{}, wrongState("Treatment plan " + why)
	}
	table.Put(&w.Carts, p.PatientID, &store.Cart{PatientID: p.PatientID, PlanID: p.ID, Lines: store.LinesOf(p.Recommendations)})
	return created(struct {
		URL string `json:"url"`
	}{c.api.Origin + "/checkouts/" + p.ID}), nil
}
