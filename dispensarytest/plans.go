package dispensarytest

import (
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// planItem is a treatment plan in a list. API section: "Treatment plan".
type planItem struct {
	ID           string  `json:"id"`
	State        string  `json:"state"`
	Patient      *idRef  `json:"patient"`
	Practitioner idRef   `json:"practitioner"`
	AvailableAt  *string `json:"available_at"`
	CreatedAt    string  `json:"created_at"`
	UpdatedAt    string  `json:"updated_at"`
}

// planView is a whole treatment plan. The dosage of its recommendations is
// spelled one way in answers and another in event data.
type planView[D any] struct {
	planItem
	InvitationURL   *string       `json:"invitation_url"`
	PersonalMessage *string       `json:"personal_message"`
	Recommendations []planLine[D] `json:"recommendations"`
	Metadata        *metadataView `json:"metadata"`
}

type planLine[D any] struct {
	VariantID string `json:"variant_id"`
	Refill    bool   `json:"refill"`
	Units     int    `json:"units_to_purchase"`
	Dosage    *D     `json:"dosage"`
}

// dosageView is a dosage as treatment plans spell it.
type dosageView struct {
	Amount         string  `json:"amount"`
	Frequency      string  `json:"frequency"`
	Duration       *string `json:"duration"`
	Format         string  `json:"format"`
	AdditionalInfo string  `json:"additional_info"`
}

func viewDosage(d Dosage) dosageView {
	return dosageView{
		Amount: d.Amount, Frequency: d.Frequency, Duration: orNull(d.Duration),
		Format: d.Format, AdditionalInfo: d.AdditionalInfo,
	}
}

func viewPlanItem(p *Plan) planItem {
	item := planItem{
		ID: p.ID, State: p.State, Practitioner: idRef{ID: p.PractitionerID},
		AvailableAt: dayOrNull(p.AvailableAt), CreatedAt: stamp(p.CreatedAt), UpdatedAt: stamp(p.UpdatedAt),
	}
	if p.PatientID != "" {
		item.Patient = &idRef{ID: p.PatientID}
	}
	return item
}

// viewPlanWith shows a plan. That a draft has no invitation yet is an assumption.
func viewPlanWith[D any](s *Server, p *Plan, dosage func(Dosage) D) planView[D] {
	view := planView[D]{
		planItem: viewPlanItem(p), PersonalMessage: orNull(p.PersonalMessage),
		Recommendations: make([]planLine[D], 0, len(p.Recommendations)), Metadata: viewMetadata(p.MetadataID),
	}
	if p.State != StateDraft || s.reads().inviteDrafts {
		view.InvitationURL = new(s.origin + "/plans/" + p.ID + "/invitation")
	}
	for _, r := range p.Recommendations {
		line := planLine[D]{VariantID: r.VariantID, Refill: r.Refill, Units: r.UnitsToPurchase}
		if r.Dosage != nil {
			line.Dosage = new(dosage(*r.Dosage))
		}
		view.Recommendations = append(view.Recommendations, line)
	}
	return view
}

func (c *call) viewPlan(p *Plan) planView[dosageView] {
	return viewPlanWith(c.srv, p, viewDosage)
}

// planOf finds a plan of the clinic. Plans made outside the API need the scope
// for historical plans.
func (c *call) planOf(w *world, id string) (*Plan, error) {
	p, known := w.plans.Get(id)
	if !known || p.ClinicID != c.clinicID() {
		return nil, notFound()
	}
	if p.Outside {
		if err := c.require(scopePlanHistory); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func listPlans(c *call, w *world) (reply, error) {
	patient, known := w.patientOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	field, descending, err := c.params.order("created_at", "updated_at")
	if err != nil {
		return reply{}, err
	}
	outside := c.token.has(scopePlanHistory)
	rows := table.Keep(w.plans.Span(plansByPatient, patient.ID).Created().All(), func(p *Plan) bool { return outside || !p.Outside })
	switch {
	case field == "updated_at":
		sortRows(rows, descending, func(p *Plan) string { return sortable(p.UpdatedAt) })
	case field != "" || descending:
		sortRows(rows, descending, func(p *Plan) string { return sortable(p.CreatedAt) })
	}
	return listOf(c, table.Rows(rows), viewPlanItem), nil
}

func getPlan(c *call, w *world) (reply, error) {
	p, err := c.planOf(w, c.arg())
	if err != nil {
		return reply{}, err
	}
	return ok(c.viewPlan(p)), nil
}

// createPlan makes an active plan unless the state says draft. Besides
// clinic:write it takes patients:read, as the API says of that scope.
func createPlan(c *call, w *world) (reply, error) {
	if err := c.require(scopePatientsRead); err != nil {
		return reply{}, err
	}
	patient, known := w.patientOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	p := &Plan{ClinicID: c.clinicID(), PatientID: patient.ID, CreatedAt: c.now, UpdatedAt: c.now}
	p.PractitionerID = c.form.word("practitioner_id", true).is
	if _, known := w.practitionerOf(c.clinicID(), p.PractitionerID); p.PractitionerID != "" && !known {
		c.form.complain("practitioner_id", "must exist")
	}
	p.State = c.form.choice("state", StateDraft, StateActive).or(StateActive)
	if err := w.readPlan(c.form, p); err != nil {
		return reply{}, err
	}
	if p.State == StateActive {
		p.AvailableAt = c.now
	}
	p.ID = w.newID("treatment_plan")
	w.plans.Put(p.ID, p)
	return created(c.viewPlan(p)), nil
}

// updatePlan leaves the state as it is; a cancelled plan is not edited any more.
// Both are an assumption.
func updatePlan(c *call, w *world) (reply, error) {
	old, err := c.planOf(w, c.arg())
	if err != nil {
		return reply{}, err
	}
	p := *old
	if err := w.readPlan(c.form, &p); err != nil {
		return reply{}, err
	}
	if old.State == StateCancelled && !c.reads.editCancelled {
		return reply{}, wrongState("Treatment plan is cancelled")
	}
	if p.update(c.now); old.State == StateDraft && c.reads.updateActivates && p.unready(c.reads) == "" {
		p.activate(c.now)
	}
	w.plans.Put(p.ID, &p)
	return ok(c.viewPlan(&p)), nil
}

// readPlan takes over the fields that create and update share. That an empty list
// of recommendations is as bad as none is an assumption.
func (w *world) readPlan(f *form, p *Plan) error {
	f.prose("personal_message").change(&p.PersonalMessage)
	readMetadata(f, &p.MetadataID)
	lines := f.objects("recommendations")
	if len(lines.is) == 0 {
		f.complain("recommendations", "can't be blank")
	}
	p.Recommendations = make([]Recommendation, 0, len(lines.is))
	for _, line := range lines.is {
		p.Recommendations = append(p.Recommendations, w.readRecommendation(line))
	}
	return f.err()
}

// readRecommendation needs variant_id and units_to_purchase: an assumption, the
// API does not say which fields are required. The parts of a dosage are strings;
// that nothing else is taken for one is an assumption.
func (w *world) readRecommendation(f *form) Recommendation {
	before := len(*f.errs)
	r := Recommendation{VariantID: f.word("variant_id", true).is, Refill: f.truth("refill").is}
	if _, known := w.variants.Get(r.VariantID); r.VariantID != "" && !known {
		f.complain("variant_id", "must exist")
	}
	units := f.amount("units_to_purchase")
	if r.UnitsToPurchase = units.is; (!units.sent || units.null) && len(*f.errs) == before {
		f.complain("units_to_purchase", "can't be blank")
	}
	if d := f.object("dosage"); d != nil {
		r.Dosage = &Dosage{
			Amount: d.text("amount").is, Frequency: d.text("frequency").is, Duration: d.text("duration").is,
			Format: d.text("format").is, AdditionalInfo: d.prose("additional_info").is,
		}
	}
	return r
}

func activatePlan(c *call, w *world) (reply, error) {
	return c.movePlan(w, func(p *Plan) error {
		if why := p.unready(c.reads); why != "" {
			return wrongState("Treatment plan " + why)
		}
		p.activate(c.now)
		return nil
	}, StateDraft)
}

func cancelPlan(c *call, w *world) (reply, error) {
	from := []string{StateActive}
	if c.reads.cancelDrafts {
		from = append(from, StateDraft)
	}
	return c.movePlan(w, func(p *Plan) error { p.cancel(c.now); return nil }, from...)
}

// movePlan takes a plan from one of some states to the next.
func (c *call) movePlan(w *world, move func(*Plan) error, from ...string) (reply, error) {
	old, err := c.planOf(w, c.arg())
	if err != nil {
		return reply{}, err
	}
	if err := c.form.err(); err != nil { // there is no field to know
		return reply{}, err
	}
	if !slices.Contains(from, old.State) {
		return reply{}, wrongState("Treatment plan is not " + strings.Join(from, " or "))
	}
	p := *old
	if err := move(&p); err != nil {
		return reply{}, err
	}
	w.plans.Put(p.ID, &p)
	return ok(c.viewPlan(&p)), nil
}

// incomplete is what a plan lacks that is to be sent or bought; "" is nothing.
func (p *Plan) incomplete() string {
	switch {
	case p.PatientID == "":
		return "has no patient"
	case len(p.Recommendations) == 0:
		return "has no recommendations"
	}
	return ""
}

// unready is why a draft cannot be activated: an assumption.
func (p *Plan) unready(reads *readings) string {
	if reads.activateIncomplete {
		return ""
	}
	return p.incomplete()
}

func (p *Plan) activate(now time.Time) {
	p.State, p.AvailableAt = StateActive, now
	p.update(now)
}

// update never takes back the time of the plan's last event, which may be later than
// the clock.
func (p *Plan) update(now time.Time) {
	if now.After(p.UpdatedAt) {
		p.UpdatedAt = now
	}
}

// cancel empties the plan. API section: "States and transitions".
func (p *Plan) cancel(now time.Time) {
	p.State, p.Recommendations = StateCancelled, nil
	p.update(now)
}

// checkoutPlan fills the patient's cart from the plan. That the plan has to be
// active is an assumption.
func checkoutPlan(c *call, w *world) (reply, error) {
	p, err := c.planOf(w, c.arg())
	if err != nil {
		return reply{}, err
	}
	if err := c.form.err(); err != nil { // there is no field to know
		return reply{}, err
	}
	if p.State != StateActive && !(p.State == StateDraft && c.reads.checkoutDrafts) {
		return reply{}, wrongState("Treatment plan is not active")
	}
	if why := p.incomplete(); why != "" { // there is no cart, or nothing to put into it
		return reply{}, wrongState("Treatment plan " + why)
	}
	w.carts.Put(p.PatientID, &cart{patientID: p.PatientID, planID: p.ID, lines: p.lines()})
	return created(struct {
		URL string `json:"url"`
	}{c.srv.origin + "/checkouts/" + p.ID}), nil
}

// lines is what the plan tells a patient to buy.
func (p *Plan) lines() []Line { return linesOf(p.Recommendations) }

// linesOf adds up recommendations of the same variant.
func linesOf(recommended []Recommendation) []Line {
	lines := make([]Line, 0, len(recommended))
	for _, r := range recommended {
		at := slices.IndexFunc(lines, func(l Line) bool { return l.VariantID == r.VariantID })
		if at >= 0 {
			lines[at].Quantity += r.UnitsToPurchase
			continue
		}
		lines = append(lines, Line{VariantID: r.VariantID, Quantity: r.UnitsToPurchase})
	}
	return lines
}
