package people

import (
	"cmp"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// CreatePlan lets a practitioner write a plan for a patient:
// treatment_plan.created. A draft makes its event once it is activated: an
// assumption.
func (p *People) CreatePlan(patientID string, in model.NewPlan) (out model.Plan, e model.Event, err error) {
	err = p.act(func(w *store.World) error {
		patient, known := w.Patients.Get(patientID)
		if !known {
			return model.Unknown("CreatePlan", "patient", patientID)
		}
		now := p.Clock.Now()
		row := &model.Plan{
			ClinicID: patient.ClinicID, PatientID: patientID, State: model.StateDraft, Outside: true, CreatedAt: now, UpdatedAt: now,
			PractitionerID:  cmp.Or(in.PractitionerID, w.FirstPractitioner(patient.ClinicID)),
			PersonalMessage: in.PersonalMessage, Recommendations: store.CloneRecommendations(in.Recommendations),
		}
		if _, known := w.PractitionerOf(row.ClinicID, row.PractitionerID); !known {
			return model.Unknown("CreatePlan", "practitioner", row.PractitionerID)
		}
		if v := w.FirstAvailable(); len(row.Recommendations) == 0 && v != nil {
			row.Recommendations = []model.Recommendation{{VariantID: v.ID, UnitsToPurchase: 1}}
		}
		if err := recommendationsFit(w, "CreatePlan", row); err != nil {
			return err
		}
		row.ID = w.NewID("treatment_plan")
		if !in.Draft {
			store.ActivatePlan(row, now)
		}
		w.Plans.Put(row.ID, row)
		if out = store.Detached(*row); !in.Draft || p.Behaviors.Get().DraftMakesEvent {
			e = p.emitPlan(model.TreatmentPlanCreated, row)
		}
		return nil
	})
	return out, e, err
}

// ActivatePlan lets a practitioner send a draft to its patient:
// treatment_plan.created, unless its creation made that already. It has to name a
// patient and recommend something, but see the behavior incomplete-plan.
func (p *People) ActivatePlan(planID string) (model.Plan, model.Event, error) {
	return p.changePlan("ActivatePlan", planID, p.Behaviors.Get().OnActivation(), []string{model.StateDraft}, func(_ *store.World, row *model.Plan) error {
		if why := store.PlanUnready(row, p.Behaviors.Get()); why != "" {
			return model.Refused("ActivatePlan", model.ErrInvalid, "treatment plan %q %s", planID, why)
		}
		store.ActivatePlan(row, p.Clock.Now())
		return nil
	})
}

// UpdatePlan lets a practitioner edit a plan that is not cancelled:
// treatment_plan.updated.
func (p *People) UpdatePlan(planID string, in model.PlanChange) (model.Plan, model.Event, error) {
	return p.changePlan("UpdatePlan", planID, model.TreatmentPlanUpdated, []string{model.StateDraft, model.StateActive}, func(w *store.World, row *model.Plan) error {
		set(&row.PersonalMessage, in.PersonalMessage)
		if in.Recommendations != nil {
			row.Recommendations = store.CloneRecommendations(in.Recommendations)
		}
		return recommendationsFit(w, "UpdatePlan", row)
	})
}

// UpdateRecommendation lets a practitioner edit the line of a plan that has the
// same variant: treatment_plan.recommendation.updated. That the event's data is
// the whole plan is an assumption.
func (p *People) UpdateRecommendation(planID string, in model.Recommendation) (model.Plan, model.Event, error) {
	return p.changePlan("UpdateRecommendation", planID, model.TreatmentPlanRecommendation, []string{model.StateDraft, model.StateActive}, func(w *store.World, row *model.Plan) error {
		at := slices.IndexFunc(row.Recommendations, func(r model.Recommendation) bool { return r.VariantID == in.VariantID })
		if at < 0 {
			return model.Unknown("UpdateRecommendation", "recommended variant", in.VariantID)
		}
		row.Recommendations = slices.Clone(row.Recommendations)
		row.Recommendations[at] = store.CloneRecommendations([]model.Recommendation{in})[0]
		return recommendationsFit(w, "UpdateRecommendation", row)
	})
}

// CancelPlan lets a practitioner cancel an active plan: treatment_plan.updated.
func (p *People) CancelPlan(planID string) (model.Plan, model.Event, error) {
	return p.changePlan("CancelPlan", planID, model.TreatmentPlanUpdated, []string{model.StateActive}, func(_ *store.World, row *model.Plan) error {
		store.CancelPlan(row, p.Clock.Now())
		return nil
	})
}

func (p *People) changePlan(action, planID, kind string, from []string, change func(*store.World, *model.Plan) error) (out model.Plan, e model.Event, err error) {
	err = p.act(func(w *store.World) error {
		old, known := w.Plans.Get(planID)
		if !known {
			return model.Unknown(action, "treatment plan", planID)
		}
		if !slices.Contains(from, old.State) {
			return model.Refused(action, model.ErrState, "treatment plan %q is %s", planID, old.State)
		}
		row := *old
		if err := change(w, &row); err != nil {
			return err
		}
		row.UpdatedAt = p.eventTime(planID)
		w.Plans.Put(planID, &row)
		out, e = store.Detached(row), p.emitPlan(kind, &row)
		return nil
	})
	return out, e, err
}

func recommendationsFit(w *store.World, action string, p *model.Plan) error {
	for _, r := range p.Recommendations {
		if _, known := w.Variants.Get(r.VariantID); !known {
			return model.Unknown(action, "variant", r.VariantID)
		}
		if r.UnitsToPurchase < 1 {
			return model.Refused(action, model.ErrInvalid, "%d is not a number of units", r.UnitsToPurchase)
		}
	}
	return nil
}
