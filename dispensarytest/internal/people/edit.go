package people

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// PlanEdit is a plan as it stands in the editor: nothing of it has happened yet.
type PlanEdit struct {
	PatientID      string // where the plan has none
	PractitionerID string // of a new plan
	Message        string
	Lines          []model.Recommendation
}

// apply puts the edit into the plan's new row. The patient is one of the plan's
// clinic; see readEdit.
func (e PlanEdit) apply(w *store.World, row *model.Plan) error {
	if row.PatientID == "" {
		row.PatientID = e.PatientID
	}
	row.PersonalMessage, row.Recommendations = e.Message, store.CloneRecommendations(e.Lines)
	return recommendationsFit(w, "UpdatePlan", row)
}

// changedLines finds the lines that differ, and tells whether the plan has the
// same variants in the same places.
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

// sameLine compares what the editor shows: it has no dosage without a text.
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

// SavePlan lets the practitioner of a plan save it from the editor:
// treatment_plan.updated, or treatment_plan.recommendation.updated where a single
// line of a sent plan changed. What is as it was makes no event.
func (p *People) SavePlan(planID string, e PlanEdit) (model.Event, error) {
	old, _ := p.Plan(planID)
	changed, sameRest := e.changedLines(old)
	unchanged := sameRest && len(changed) == 0 && e.Message == old.PersonalMessage && e.PatientID == ""
	switch {
	case unchanged && old.State != model.StateCancelled:
		return model.Event{}, nil
	case sameRest && len(changed) == 1 && e.Message == old.PersonalMessage && old.State == model.StateActive:
		_, event, err := p.UpdateRecommendation(planID, changed[0])
		return event, err
	}
	_, event, err := p.changePlan("UpdatePlan", planID, model.TreatmentPlanUpdated, []string{model.StateDraft, model.StateActive}, e.apply)
	return event, err
}

// SendPlan lets the practitioner of a draft save it and send it to its patient at
// once: the event of [dispensarytest.Plans], with the plan as it was sent.
func (p *People) SendPlan(planID string, e PlanEdit) (model.Event, error) {
	_, event, err := p.changePlan("ActivatePlan", planID, p.Behaviors.Get().OnActivation(), []string{model.StateDraft}, func(w *store.World, row *model.Plan) error {
		if err := e.apply(w, row); err != nil {
			return err
		}
		switch {
		case row.PatientID == "":
			return model.Refused("ActivatePlan", model.ErrInvalid, "a plan is sent to a patient, and this one has none")
		case len(row.Recommendations) == 0:
			return model.Refused("ActivatePlan", model.ErrInvalid, "a plan recommends at least one product")
		}
		store.ActivatePlan(row, p.Clock.Now())
		return nil
	})
	return event, err
}
