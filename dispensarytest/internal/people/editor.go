package people

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

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
			return store.Refused("ActivatePlan", model.ErrValidation, "the plan has no patient, so it cannot be sent")
		case len(row.Recommendations) == 0:
			return store.Refused("ActivatePlan", model.ErrValidation, "the plan must recommend at least one product")
		}
		store.ActivatePlan(row, p.Clock.Now())
		return nil
	})
	return event, err
}
