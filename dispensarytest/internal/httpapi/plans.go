package httpapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/form"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func (c *call) viewPlan(p *model.Plan) view.PlanView[view.DosageView] {
	return view.Plan(c.api.Origin, c.behaviors.Is(behavior.DraftInvitationPresent), p, view.Dosage)
}

// ofPlan returns a handler for the plan of the caller's clinic with the id in the path. Plans
// from outside the API need the scope for historical plans.
func ofPlan(do func(*call, *store.World, *model.Plan) (reply, error)) handler {
	return ofClinic((*store.World).PlanOf, func(c *call, w *store.World, p *model.Plan) (reply, error) {
		if p.Outside {
			if err := c.require(operations.ScopePlanHistory); err != nil {
				return reply{}, err
			}
		}
		return do(c, w, p)
	})
}

func listPlans(c *call, w *store.World, patient *model.Patient) (reply, error) {
	outside := c.token.Has(operations.ScopePlanHistory)
	rows := table.Where(table.Of(w.Plans, store.ByPatient, patient.ID), func(p *model.Plan) bool { return outside || !p.Outside })
	return listOf(c, sorted(c, rows, "created_at", order[model.Plan]{
		"created_at": func(a, b *model.Plan) int { return a.CreatedAt.Compare(b.CreatedAt) },
		"updated_at": func(a, b *model.Plan) int { return a.UpdatedAt.Compare(b.UpdatedAt) },
	}), view.PlanItem), nil
}

func getPlan(c *call, _ *store.World, p *model.Plan) (reply, error) { return ok(c.viewPlan(p)), nil }

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
	p.PractitionerID = c.form.Word("practitioner_id", true).Is
	if _, known := w.PractitionerOf(c.clinicID(), p.PractitionerID); p.PractitionerID != "" && !known {
		c.form.Complain("practitioner_id", form.Unknown)
	}
	p.State = c.form.Choice("state", model.PlanStateDraft, model.PlanStateActive).Or(model.PlanStateActive)
	if err := c.readPlan(w, p); err != nil {
		return reply{}, err
	}
	if p.State == model.PlanStateActive {
		p.AvailableAt = c.now
	}
	p.ID = w.NewID("treatment_plan")
	table.Put(&w.Plans, p)
	return created(c.viewPlan(p)), nil
}

// updatePlan keeps the state, and rejects changes of a canceled plan. Both are assumptions.
func updatePlan(c *call, w *store.World, old *model.Plan) (reply, error) {
	p := *old
	if err := c.readPlan(w, &p); err != nil {
		return reply{}, err
	}
	if old.State == model.PlanStateCanceled && !c.behaviors.Is(behavior.CanceledPlanUpdateAllowed) {
		return reply{}, wrongState("Treatment plan is cancelled")
	}
	if store.TouchPlan(&p, c.now); old.State == model.PlanStateDraft && c.behaviors.Is(behavior.DraftUpdateActivates) && store.PlanUnready(&p, c.behaviors) == "" {
		store.ActivatePlan(&p, c.now)
	}
	table.Put(&w.Plans, &p)
	return ok(c.viewPlan(&p)), nil
}

// readPlan reads the fields that create and update share. Assumption: an empty list of
// recommendations is as invalid as a missing one.
func (c *call) readPlan(w *store.World, p *model.Plan) error {
	f := c.form
	f.Prose("personal_message").Change(&p.PersonalMessage)
	readMetadata(f, &p.MetadataID)
	lines := f.Objects("recommendations")
	if len(lines.Is) == 0 {
		f.Complain("recommendations", form.Blank)
	}
	p.Recommendations = table.Map(lines.Is, func(line *form.Form) model.Recommendation { return readRecommendation(w, line) })
	return c.check(false)
}

// readRecommendation requires variant_id and units_to_purchase. This is an assumption, because
// the API does not state the required fields. The parts of a dosage must be strings: an
// assumption.
func readRecommendation(w *store.World, f *form.Form) model.Recommendation {
	before := len(f.Errors())
	r := model.Recommendation{VariantID: f.Word("variant_id", true).Is, Refill: f.Truth("refill").Is}
	if _, known := w.Variant(r.VariantID); r.VariantID != "" && !known {
		f.Complain("variant_id", form.Unknown)
	}
	units := f.Amount("units_to_purchase")
	if r.UnitsToPurchase = units.Is; (!units.Sent || units.Null) && len(f.Errors()) == before {
		f.Complain("units_to_purchase", form.Blank)
	}
	if d := f.Object("dosage"); d != nil {
		r.Dosage = &model.Dosage{
			Amount: d.Text("amount").Is, Frequency: d.Text("frequency").Is, Duration: d.Text("duration").Is,
			Format: d.Text("format").Is, AdditionalInfo: d.Prose("additional_info").Is,
		}
	}
	return r
}

func activatePlan(c *call, w *store.World, old *model.Plan) (reply, error) {
	return c.movePlan(w, old, func(p *model.Plan) error {
		if why := store.PlanUnready(p, c.behaviors); why != "" {
			return wrongState("Treatment plan " + why)
		}
		store.ActivatePlan(p, c.now)
		return nil
	}, model.PlanStateDraft)
}

func cancelPlan(c *call, w *store.World, old *model.Plan) (reply, error) {
	from := []string{model.PlanStateActive}
	if c.behaviors.Is(behavior.DraftCancellationAllowed) {
		from = append(from, model.PlanStateDraft)
	}
	return c.movePlan(w, old, func(p *model.Plan) error { store.CancelPlan(p, c.now); return nil }, from...)
}

// movePlan moves a plan from one of the states in from to the next state.
func (c *call) movePlan(w *store.World, old *model.Plan, move func(*model.Plan) error, from ...string) (reply, error) {
	if err := c.check(false); err != nil { // the operation has no fields
		return reply{}, err
	}
	if !slices.Contains(from, old.State) {
		return reply{}, wrongState("Treatment plan is not " + strings.Join(from, " or "))
	}
	p := *old
	if err := move(&p); err != nil {
		return reply{}, err
	}
	table.Put(&w.Plans, &p)
	return ok(c.viewPlan(&p)), nil
}

// checkoutPlan fills the patient's cart from the plan. Assumption: the plan must be active.
func checkoutPlan(c *call, w *store.World, p *model.Plan) (reply, error) {
	if err := c.check(false); err != nil { // the operation has no fields
		return reply{}, err
	}
	if p.State != model.PlanStateActive && !(p.State == model.PlanStateDraft && c.behaviors.Is(behavior.CheckoutStateNotCanceled)) {
		return reply{}, wrongState("Treatment plan is not active")
	}
	if why := store.PlanLacks(p); why != "" { // without a patient there is no cart, and without recommendations the cart is empty
		return reply{}, wrongState("Treatment plan " + why)
	}
	table.Put(&w.Carts, &store.Cart{PatientID: p.PatientID, PlanID: p.ID, Lines: store.LinesOf(p.Recommendations)})
	return created(map[string]string{"url": c.api.Origin + "/checkouts/" + p.ID}), nil
}

// protocolView is a protocol. API section: "Protocol (formerly template)".
type protocolView struct {
	ID              string            `json:"id"`
	Name            string            `json:"name"`
	State           string            `json:"current_state"`
	Practitioner    *view.IDRef       `json:"practitioner,omitempty"`    // protocols
	PractitionerID  string            `json:"practitioner_id,omitempty"` // templates
	PersonalMessage *string           `json:"personal_message"`
	Recommendations []protocolRecView `json:"recommendations"`
}

// protocolItem is a protocol or template in a list.
type protocolItem struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	State     string `json:"current_state"`
	Ownership string `json:"ownership_type,omitempty"` // protocols
}

type protocolRecView struct {
	VariantID    string  `json:"variant_id"`
	Refill       bool    `json:"refill"`
	Amount       string  `json:"dosage_amount"`
	Frequency    string  `json:"dosage_frequency"`
	Duration     *string `json:"dosage_duration"`
	Permutations string  `json:"dosage_permutations"`
	Format       string  `json:"dosage_format"`
	Quantity     int     `json:"quantity_recommended"`
}

// viewBoth returns the fields that protocols and templates share.
func viewBoth(p *model.Protocol) protocolView {
	response := protocolView{
		ID: p.ID, Name: p.Name, State: p.State, PersonalMessage: view.NullText(p.PersonalMessage),
		Recommendations: []protocolRecView{},
	}
	for _, r := range p.Recommendations {
		response.Recommendations = append(response.Recommendations, protocolRecView{
			VariantID: r.VariantID, Refill: r.Refill, Amount: r.Dosage.Amount, Frequency: r.Dosage.Frequency,
			Duration: view.NullText(r.Dosage.Duration), Permutations: r.Permutations, Format: r.Dosage.Format, Quantity: r.Quantity,
		})
	}
	return response
}

func viewProtocol(p *model.Protocol) protocolView {
	response := viewBoth(p)
	response.Practitioner = &view.IDRef{ID: p.PractitionerID}
	return response
}

func viewTemplate(p *model.Protocol) protocolView {
	response := viewBoth(p)
	response.PractitionerID = p.PractitionerID
	return response
}

// listProtocols supports the API's filters and ownership_type. The values and the default
// ("owned") of ownership_type are an assumption.
func listProtocols(c *call, w *store.World, practitioner *model.Practitioner) (reply, error) {
	state := c.query.oneOf("current_state", model.PlanStateActive, model.PlanStateDraft, model.PlanStateCanceled)
	ownership := c.query.oneOf("ownership_type", "owned", "shared", "all")
	rows := table.Where(w.Protocols.Rows, func(p *model.Protocol) bool {
		owned := p.PractitionerID == practitioner.ID
		return (state == "" || state == p.State) && w.Offers(p, owned, ownership, c.clinicID())
	})
	rows = sorted(c, rows, "", order[model.Protocol]{
		"name":          by(func(p *model.Protocol) string { return p.Name }),
		"current_state": by(func(p *model.Protocol) string { return p.State }),
	})
	return listOf(c, rows, func(p *model.Protocol) protocolItem {
		item := viewProtocolItem(p)
		item.Ownership = "shared"
		if p.PractitionerID == practitioner.ID {
			item.Ownership = "owned"
		}
		return item
	}), nil
}

func viewProtocolItem(p *model.Protocol) protocolItem {
	return protocolItem{ID: p.ID, Name: p.Name, State: p.State}
}

func listTemplates(c *call, w *store.World, practitioner *model.Practitioner) (reply, error) {
	return listOf(c, table.Of(w.Protocols, store.ByPractitioner, practitioner.ID), viewProtocolItem), nil
}

// dynamicLinkView is a link for completing a plan on the platform. API section: "Dynamic
// link".
type dynamicLinkView struct {
	RedirectURL string            `json:"redirect_url"`
	Plan        linkedPlan        `json:"treatment_plan"`
	Patient     *view.PatientView `json:"patient"`
}

type linkedPlan struct {
	ID          string  `json:"id"`
	State       string  `json:"state"`
	AvailableAt *string `json:"available_at"`
}

func (c *call) viewDynamicLink(w *store.World, p *model.Plan) dynamicLinkView {
	response := dynamicLinkView{
		RedirectURL: c.api.Origin + "/plans/" + p.ID + "/edit",
		Plan:        linkedPlan{ID: p.ID, State: p.State, AvailableAt: view.NullDay(p.AvailableAt)},
	}
	if patient, known := table.Get(w.Patients, p.PatientID); known {
		shown := view.Patient(w, patient)
		shown.Metadata = nil
		// The API shows 0 here, not a boolean.
		shown.TextNotification = 0
		if patient.TextNotification {
			shown.TextNotification = 1
		}
		response.Patient = &shown
	}
	return response
}

// newDynamicLink returns a link to the editor of the clinic. The query parameter for the
// clinic is this platform's own choice.
func newDynamicLink(c *call, _ *store.World) (reply, error) {
	return bare(map[string]string{"redirect_url": c.api.Origin + "/plans/new?clinic=" + c.clinicID()}), nil
}

func getDynamicLink(c *call, w *store.World, p *model.Plan) (reply, error) {
	if p.State == model.PlanStateCanceled {
		return reply{}, wrongState("Treatment plan is cancelled")
	}
	return ok(c.viewDynamicLink(w, p)), nil
}

// createDynamicLink creates a draft. It finds the patient by email address or creates one.
func createDynamicLink(c *call, w *store.World) (reply, error) {
	plan := c.form.Object("treatment_plan")
	if plan == nil {
		return reply{}, badRequest("param is missing or the value is empty: treatment_plan")
	}
	var self string // an assumption: the API requires only treatment_plan
	if !c.behaviors.Is(behavior.LinkPractitionerRequired) {
		self = c.practitionerID()
	}
	practitioner := cmp.Or(plan.Word("practitioner_id", self == "").Is, self)
	if _, known := w.PractitionerOf(c.clinicID(), practitioner); practitioner != "" && !known {
		plan.Complain("practitioner_id", form.Unknown)
	}
	patient, err := c.linkedPatient(w)
	if err != nil {
		return reply{}, err
	}
	p := &model.Plan{ClinicID: c.clinicID(), PractitionerID: practitioner, State: model.PlanStateDraft, CreatedAt: c.now, UpdatedAt: c.now}
	if patient != nil {
		if patient.ID == "" {
			patient.ID = w.NewID("patient")
			table.Put(&w.Patients, patient)
		}
		p.PatientID = patient.ID
	}
	p.ID = w.NewID("treatment_plan")
	table.Put(&w.Plans, p)
	return ok(c.viewDynamicLink(w, p)), nil
}

// linkedPatient reads the patient of a link. A patient without an id does not exist yet.
// Assumption: an email address alone is enough for a patient without names, and other fields
// are allowed.
func (c *call) linkedPatient(w *store.World) (*model.Patient, error) {
	f := c.form.Object("patient")
	if f == nil {
		return nil, c.check(false)
	}
	p := &model.Patient{ClinicID: c.clinicID(), CreatedAt: c.now}
	readPatient(f, p, false)
	p.Welcomed = f.Truth("send_welcome_email").Or(true)
	if p.Email == "" && len(f.Errors()) == 0 {
		f.Complain("email", form.Blank)
	}
	if err := c.check(false); err != nil {
		return nil, err
	}
	if known, exists := w.PatientByEmail(p.Email); exists {
		if known.ClinicID != c.clinicID() {
			return nil, invalid("Patient email has already been taken")
		}
		return known, nil
	}
	return p, c.require(operations.ScopePatientsEdit)
}
