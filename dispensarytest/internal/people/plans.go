package people

import (
	"cmp"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Plans performs actions of practitioners on treatment plans.
type Plans struct{ *actions }

func (p Plans) All() []model.Plan {
	return all(p.actions, func(w *store.World) table.Table[*model.Plan] { return w.Plans })
}

func (p Plans) Get(id string) (model.Plan, bool) {
	return find(p.actions, func(w *store.World) table.Table[*model.Plan] { return w.Plans }, id)
}

func (p Plans) Create(patientID string, in model.PlanCreate) (out model.Plan, e model.Event, err error) {
	w, done := p.begin()
	defer done()
	patient, known := w.Patients.Rows[patientID]
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
	table.Put(&w.Plans, row.ID, row)
	if out = store.Detached(*row); !in.Draft || p.Behaviors.Get().DraftMakesEvent {
		e = p.emitPlan(model.EventTreatmentPlanCreated, row)
	}
	return out, e, nil
}

func (p Plans) Activate(planID string) (model.Plan, model.Event, error) {
	return p.change("ActivatePlan", planID, p.Behaviors.Get().OnActivation(), []string{model.PlanStateDraft}, func(_ *store.World, row *model.Plan) error {
		if why := store.PlanUnready(row, p.Behaviors.Get()); why != "" {
			return store.Refused("ActivatePlan", model.ErrValidation, "treatment plan %q %s", planID, why)
		}
		store.ActivatePlan(row, p.Clock.Now())
		return nil
	})
}

func (p Plans) Update(planID string, in model.PlanUpdate) (model.Plan, model.Event, error) {
	return p.change("UpdatePlan", planID, model.EventTreatmentPlanUpdated, []string{model.PlanStateDraft, model.PlanStateActive}, func(w *store.World, row *model.Plan) error {
		set(&row.PersonalMessage, in.PersonalMessage)
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

func (p Plans) change(action, planID, kind string, from []string, change func(*store.World, *model.Plan) error) (out model.Plan, e model.Event, err error) {
	w, done := p.begin()
	defer done()
	old, known := w.Plans.Rows[planID]
	if !known {
		return out, e, store.Unknown(action, "treatment plan", planID)
	}
	if !slices.Contains(from, old.State) {
		return out, e, store.Refused(action, model.ErrState, "treatment plan %q is %s", planID, old.State)
	}
	row := *old
	if err := change(w, &row); err != nil {
		return out, e, err
	}
	row.UpdatedAt = p.eventTime(planID)
	table.Put(&w.Plans, planID, &row)
	out, e = store.Detached(row), p.emitPlan(kind, &row)
	return out, e, nil
}

func recommendationsFit(w *store.World, action string, p *model.Plan) error {
	for _, r := range p.Recommendations {
		if _, known := w.Variant(r.VariantID); !known {
			return store.Unknown(action, "variant", r.VariantID)
		}
		if r.UnitsToPurchase < 1 {
			return store.Refused(action, model.ErrValidation, "%d is not a number of units", r.UnitsToPurchase)
		}
	}
	return nil
}
