package dispensarytest

import (
	"cmp"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/pages"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Plans are the treatment plans of all clinics, and what practitioners do with them. Actions make events,
// as on the real platform, and return them; see [Server].
type Plans struct{ actions }

// All returns all treatment plans, in the order they were created.
func (p Plans) All() []model.Plan {
	return all(p.server, func(w *store.World) table.Table[*model.Plan] { return w.Plans })
}

// Get returns a treatment plan by id.
func (p Plans) Get(id string) (model.Plan, bool) {
	return find(p.server, func(w *store.World) table.Table[*model.Plan] { return w.Plans }, id)
}

// Create lets a practitioner write a plan for a patient:
// treatment_plan.created. A draft makes its event once it is activated: an
// assumption.
func (p Plans) Create(patientID string, in model.NewPlan) (out model.Plan, e model.Event, err error) {
	err = transact(p.server, func(w *store.World) error {
		patient, known := w.Patients.Rows[patientID]
		if !known {
			return model.Unknown("CreatePlan", "patient", patientID)
		}
		now := p.server.clock.Now()
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
		table.Put(&w.Plans, row.ID, row)
		if out = store.Detached(*row); !in.Draft || p.server.behaviors.Get().DraftMakesEvent {
			e = p.emitPlan(model.TreatmentPlanCreated, row)
		}
		return nil
	})
	return out, e, err
}

// Activate lets a practitioner send a draft to its patient:
// treatment_plan.created, unless its creation made that already. It has to name a
// patient and recommend something, but see the behavior incomplete-plan.
func (p Plans) Activate(planID string) (model.Plan, model.Event, error) {
	return changePlan(p, "ActivatePlan", planID, p.server.behaviors.Get().OnActivation(), []string{model.StateDraft}, func(_ *store.World, row *model.Plan) error {
		if why := store.PlanUnready(row, p.server.behaviors.Get()); why != "" {
			return model.Refused("ActivatePlan", model.ErrInvalid, "treatment plan %q %s", planID, why)
		}
		store.ActivatePlan(row, p.server.clock.Now())
		return nil
	})
}

// Update lets a practitioner edit a plan that is not cancelled:
// treatment_plan.updated.
func (p Plans) Update(planID string, in model.PlanChange) (model.Plan, model.Event, error) {
	return changePlan(p, "UpdatePlan", planID, model.TreatmentPlanUpdated, []string{model.StateDraft, model.StateActive}, func(w *store.World, row *model.Plan) error {
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
func (p Plans) UpdateRecommendation(planID string, in model.Recommendation) (model.Plan, model.Event, error) {
	return changePlan(p, "UpdateRecommendation", planID, model.TreatmentPlanRecommendation, []string{model.StateDraft, model.StateActive}, func(w *store.World, row *model.Plan) error {
		at := slices.IndexFunc(row.Recommendations, func(r model.Recommendation) bool { return r.VariantID == in.VariantID })
		if at < 0 {
			return model.Unknown("UpdateRecommendation", "recommended variant", in.VariantID)
		}
		row.Recommendations = slices.Clone(row.Recommendations)
		row.Recommendations[at] = store.CloneRecommendations([]model.Recommendation{in})[0]
		return recommendationsFit(w, "UpdateRecommendation", row)
	})
}

// Cancel lets a practitioner cancel an active plan: treatment_plan.updated.
func (p Plans) Cancel(planID string) (model.Plan, model.Event, error) {
	return changePlan(p, "CancelPlan", planID, model.TreatmentPlanUpdated, []string{model.StateActive}, func(_ *store.World, row *model.Plan) error {
		store.CancelPlan(row, p.server.clock.Now())
		return nil
	})
}

func changePlan(p Plans, action, planID, kind string, from []string, change func(*store.World, *model.Plan) error) (out model.Plan, e model.Event, err error) {
	err = transact(p.server, func(w *store.World) error {
		old, known := w.Plans.Rows[planID]
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
		table.Put(&w.Plans, planID, &row)
		out, e = store.Detached(row), p.emitPlan(kind, &row)
		return nil
	})
	return out, e, err
}

func recommendationsFit(w *store.World, action string, p *model.Plan) error {
	for _, r := range p.Recommendations {
		if _, known := w.Variant(r.VariantID); !known {
			return model.Unknown(action, "variant", r.VariantID)
		}
		if r.UnitsToPurchase < 1 {
			return model.Refused(action, model.ErrInvalid, "%d is not a number of units", r.UnitsToPurchase)
		}
	}
	return nil
}

// apply puts the edit into the plan's new row. Its patient belongs to the plan's clinic.
func apply(e pages.PlanEdit, w *store.World, row *model.Plan) error {
	if row.PatientID == "" {
		row.PatientID = e.PatientID
	}
	row.PersonalMessage, row.Recommendations = e.Message, store.CloneRecommendations(e.Lines)
	return recommendationsFit(w, "UpdatePlan", row)
}

// changedLines finds the lines that differ, and tells whether the plan has the
// same variants in the same places.
func changedLines(e pages.PlanEdit, old model.Plan) (changed []model.Recommendation, same bool) {
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

// save lets the practitioner of a plan save it from the editor:
// treatment_plan.updated, or treatment_plan.recommendation.updated where a single
// line of a sent plan changed. What is as it was makes no event.
func (p Plans) save(planID string, e pages.PlanEdit) (model.Event, error) {
	old, _ := p.Get(planID)
	changed, sameRest := changedLines(e, old)
	unchanged := sameRest && len(changed) == 0 && e.Message == old.PersonalMessage && e.PatientID == ""
	switch {
	case unchanged && old.State != model.StateCancelled:
		return model.Event{}, nil
	case sameRest && len(changed) == 1 && e.Message == old.PersonalMessage && old.State == model.StateActive:
		_, event, err := p.UpdateRecommendation(planID, changed[0])
		return event, err
	}
	_, event, err := changePlan(p, "UpdatePlan", planID, model.TreatmentPlanUpdated, []string{model.StateDraft, model.StateActive}, func(w *store.World, row *model.Plan) error { return apply(e, w, row) })
	return event, err
}

// send lets the practitioner of a draft save it and send it to its patient at
// once: the event of ActivatePlan, with the plan as it was sent.
func (p Plans) send(planID string, e pages.PlanEdit) (model.Event, error) {
	_, event, err := changePlan(p, "ActivatePlan", planID, p.server.behaviors.Get().OnActivation(), []string{model.StateDraft}, func(w *store.World, row *model.Plan) error {
		if err := apply(e, w, row); err != nil {
			return err
		}
		switch {
		case row.PatientID == "":
			return model.Refused("ActivatePlan", model.ErrInvalid, "a plan is sent to a patient, and this one has none")
		case len(row.Recommendations) == 0:
			return model.Refused("ActivatePlan", model.ErrInvalid, "a plan recommends at least one product")
		}
		store.ActivatePlan(row, p.server.clock.Now())
		return nil
	})
	return event, err
}
