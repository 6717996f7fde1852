package actions

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/form"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Plans performs actions of practitioners on treatment plans.
type Plans struct{ records[model.Plan] }

func (p Plans) Create(patientID string, in model.PlanCreate) (out model.Plan, e model.Event, err error) {
	w, done := p.begin()
	defer done()
	patient, known := table.Get(w.Patients, patientID)
	if !known {
		return out, e, store.Unknown("CreatePlan", "patient", patientID)
	}
	now := p.Clock.Now()
	row := &model.Plan{
		ClinicID: patient.ClinicID, PatientID: patientID, State: model.PlanStateDraft, Outside: true, CreatedAt: now, UpdatedAt: now,
		PractitionerID:  cmp.Or(in.PractitionerID, w.FirstPractitioner(patient.ClinicID)),
		PersonalMessage: in.PersonalMessage, Recommendations: store.CloneRecommendations(in.Recommendations),
	}
	if _, known := w.PractitionerOf(row.ClinicID, row.PractitionerID); !known {
		return out, e, store.Unknown("CreatePlan", "practitioner", row.PractitionerID)
	}
	if v := w.FirstAvailable(); len(row.Recommendations) == 0 && v != nil {
		row.Recommendations = []model.Recommendation{{VariantID: v.ID, UnitsToPurchase: 1}}
	}
	if err := recommendationsFit(w, "CreatePlan", row); err != nil {
		return out, e, err
	}
	row.ID = w.NewID("treatment_plan")
	if !in.Draft {
		store.ActivatePlan(row, now)
	}
	emits := !in.Draft || p.Behaviors.Get().Is(behavior.PlanCreatedEventOnCreation)
	if emits {
		row.UpdatedAt = p.eventTime(row.ID)
	}
	table.Put(&w.Plans, row)
	if out = store.Detached(*row); emits {
		e = p.emitPlan(model.EventTreatmentPlanCreated, row)
	}
	return out, e, nil
}

func (p Plans) Activate(planID string) (model.Plan, model.Event, error) {
	return p.change("ActivatePlan", planID, p.Behaviors.Get().OnActivation(), []string{model.PlanStateDraft}, func(_ *store.World, row *model.Plan) error {
		if why := store.PlanUnready(row, p.Behaviors.Get()); why != "" {
			return store.Rejected("ActivatePlan", model.ErrValidation, "treatment plan %q %s", planID, why)
		}
		store.ActivatePlan(row, p.Clock.Now())
		return nil
	})
}

func (p Plans) Update(planID string, in model.PlanUpdate) (model.Plan, model.Event, error) {
	return p.change("UpdatePlan", planID, model.EventTreatmentPlanUpdated, []string{model.PlanStateDraft, model.PlanStateActive}, func(w *store.World, row *model.Plan) error {
		if in.PersonalMessage != nil {
			row.PersonalMessage = *in.PersonalMessage
		}
		if in.Recommendations != nil {
			row.Recommendations = store.CloneRecommendations(in.Recommendations)
		}
		return recommendationsFit(w, "UpdatePlan", row)
	})
}

func (p Plans) UpdateRecommendation(planID string, in model.Recommendation) (model.Plan, model.Event, error) {
	return p.change("UpdateRecommendation", planID, model.EventTreatmentPlanRecommendationUpdated, []string{model.PlanStateDraft, model.PlanStateActive}, func(w *store.World, row *model.Plan) error {
		at := slices.IndexFunc(row.Recommendations, func(r model.Recommendation) bool { return r.VariantID == in.VariantID })
		if at < 0 {
			return store.Unknown("UpdateRecommendation", "recommended variant", in.VariantID)
		}
		row.Recommendations = slices.Clone(row.Recommendations)
		row.Recommendations[at] = store.CloneRecommendations([]model.Recommendation{in})[0]
		return recommendationsFit(w, "UpdateRecommendation", row)
	})
}

func (p Plans) Cancel(planID string) (model.Plan, model.Event, error) {
	return p.change("CancelPlan", planID, model.EventTreatmentPlanUpdated, []string{model.PlanStateActive}, func(_ *store.World, row *model.Plan) error {
		store.CancelPlan(row, p.Clock.Now())
		return nil
	})
}

func (p Plans) change(action, planID, kind string, from []string, change func(*store.World, *model.Plan) error) (model.Plan, model.Event, error) {
	return p.revise(action, planID, func(w *store.World, row *model.Plan) error {
		if !slices.Contains(from, row.State) {
			return store.Rejected(action, model.ErrState, "treatment plan %q is %s", planID, row.State)
		}
		err := change(w, row)
		row.UpdatedAt = p.eventTime(planID)
		return err
	}, func(_ *store.World, row *model.Plan) model.Event { return p.emitPlan(kind, row) })
}

func recommendationsFit(w *store.World, action string, p *model.Plan) error {
	for _, r := range p.Recommendations {
		if _, err := w.Packs(action, r.VariantID, r.UnitsToPurchase, "number of units"); err != nil {
			return err
		}
	}
	return nil
}

// PlanEdit contains the unsaved changes of a plan in the editor.
type PlanEdit struct {
	PatientID      string // if the plan has none
	PractitionerID string // of a new plan
	Message        string
	Lines          []model.Recommendation
}

// apply copies the edit into the new row of a plan. The patient must belong to the plan's
// clinic.
func (e PlanEdit) apply(w *store.World, row *model.Plan) error {
	if row.PatientID == "" {
		row.PatientID = e.PatientID
	}
	row.PersonalMessage, row.Recommendations = e.Message, store.CloneRecommendations(e.Lines)
	return recommendationsFit(w, "UpdatePlan", row)
}

// changedLines returns the changed lines. same reports whether the plan has the same variants
// in the same places.
func (e PlanEdit) changedLines(old model.Plan) (changed []model.Recommendation, same bool) {
	if len(e.Lines) != len(old.Recommendations) {
		return nil, false
	}
	for i, line := range e.Lines {
		before := old.Recommendations[i]
		if line.VariantID != before.VariantID {
			return nil, false
		}
		if !sameLine(line, before) {
			changed = append(changed, line)
		}
	}
	return changed, true
}

// sameLine compares the fields that the editor shows. The editor shows no dosage and an empty
// dosage alike.
func sameLine(a, b model.Recommendation) bool {
	var x, y model.Dosage
	if a.Dosage != nil {
		x = *a.Dosage
	}
	if b.Dosage != nil {
		y = *b.Dosage
	}
	return a.UnitsToPurchase == b.UnitsToPurchase && a.Refill == b.Refill && x == y
}

// Save saves a plan from the editor on behalf of its practitioner and emits
// treatment_plan.updated. If one line of a sent plan is the only change, it emits
// treatment_plan.recommendation.updated. Without a change it emits no event.
func (p Plans) Save(planID string, e PlanEdit) (model.Event, error) {
	old, _ := p.Get(planID)
	changed, sameRest := e.changedLines(old)
	unchanged := sameRest && len(changed) == 0 && e.Message == old.PersonalMessage && e.PatientID == ""
	switch {
	case unchanged && old.State != model.PlanStateCanceled:
		return model.Event{}, nil
	case sameRest && len(changed) == 1 && e.Message == old.PersonalMessage && old.State == model.PlanStateActive:
		_, event, err := p.UpdateRecommendation(planID, changed[0])
		return event, err
	}
	_, event, err := p.change("UpdatePlan", planID, model.EventTreatmentPlanUpdated, []string{model.PlanStateDraft, model.PlanStateActive}, func(w *store.World, row *model.Plan) error { return e.apply(w, row) })
	return event, err
}

// Send saves a draft and sends it to its patient in one step, on behalf of its practitioner.
// It emits one event, the event of ActivatePlan, with the plan as sent.
func (p Plans) Send(planID string, e PlanEdit) (model.Event, error) {
	_, event, err := p.change("ActivatePlan", planID, p.Behaviors.Get().OnActivation(), []string{model.PlanStateDraft}, func(w *store.World, row *model.Plan) error {
		if err := e.apply(w, row); err != nil {
			return err
		}
		switch {
		case row.PatientID == "":
			return store.Rejected("ActivatePlan", model.ErrValidation, "the plan has no patient, so it cannot be sent")
		case len(row.Recommendations) == 0:
			return store.Rejected("ActivatePlan", model.ErrValidation, "the plan must recommend at least one product")
		}
		store.ActivatePlan(row, p.Clock.Now())
		return nil
	})
	return event, err
}

// Protocols performs actions of practitioners on protocols.
type Protocols struct{ records[model.Protocol] }

func (p Protocols) Create(in model.ProtocolCreate) (out model.Protocol, err error) {
	w, done := p.begin()
	defer done()
	row := &model.Protocol{
		Name: cmp.Or(in.Name, fmt.Sprintf("New Protocol %d", len(w.Protocols.Rows)+1)), State: model.PlanStateActive,
		PractitionerID: cmp.Or(in.PractitionerID, w.Practitioners.Rows[0].ID), PersonalMessage: in.PersonalMessage,
		Ownership: cmp.Or(in.Ownership, store.ProtocolOwned), Recommendations: slices.Clone(in.Recommendations),
	}
	if in.Draft {
		row.State = model.PlanStateDraft
	}
	if v := w.FirstAvailable(); len(row.Recommendations) == 0 && v != nil {
		row.Recommendations = []model.ProtocolRecommendation{{VariantID: v.ID, Quantity: 1}}
	}
	if _, known := table.Get(w.Practitioners, row.PractitionerID); !known {
		return out, store.Unknown("CreateProtocol", "practitioner", row.PractitionerID)
	}
	if err := protocolFits(w, row); err != nil {
		return out, err
	}
	row.ID = w.NewID("protocol")
	table.Put(&w.Protocols, row)
	out = store.Detached(*row)
	return out, nil
}

func protocolFits(w *store.World, row *model.Protocol) error {
	if err := check("CreateProtocol", form.Ownership(&row.Ownership)); err != nil {
		return err
	}
	for _, r := range row.Recommendations {
		if _, err := w.Packs("CreateProtocol", r.VariantID, r.Quantity, "quantity"); err != nil {
			return err
		}
	}
	return nil
}
