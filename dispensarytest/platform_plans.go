package dispensarytest

import "slices"

// NewPlan is a plan that a practitioner writes on the platform. Without a
// practitioner it is the first of the patient's clinic, without recommendations one pack of
// the first product that is available.
type NewPlan struct {
	PractitionerID  string
	PersonalMessage string
	Recommendations []Recommendation
	Draft           bool
}

// CreatePlan lets a practitioner write a plan for a patient:
// treatment_plan.created. A draft makes its event once it is activated: an
// assumption.
func (p *Platform) CreatePlan(patientID string, in NewPlan) (out Plan, e Event, err error) {
	err = p.act(func(w *world) error {
		patient, known := w.patients.Get(patientID)
		if !known {
			return unknown("CreatePlan", "patient", patientID)
		}
		now := p.srv.clock.Now()
		row := &Plan{
			ClinicID: patient.ClinicID, PatientID: patientID, State: StateDraft, Outside: true, CreatedAt: now, UpdatedAt: now,
			PractitionerID:  or(in.PractitionerID, w.firstPractitioner(patient.ClinicID)),
			PersonalMessage: in.PersonalMessage, Recommendations: cloneRecommendations(in.Recommendations),
		}
		if _, known := w.practitionerOf(row.ClinicID, row.PractitionerID); !known {
			return unknown("CreatePlan", "practitioner", row.PractitionerID)
		}
		if v := w.firstAvailable(); len(row.Recommendations) == 0 && v != nil {
			row.Recommendations = []Recommendation{{VariantID: v.ID, UnitsToPurchase: 1}}
		}
		if err := w.recommendationsFit("CreatePlan", row); err != nil {
			return err
		}
		row.ID = w.newID("treatment_plan")
		if !in.Draft {
			row.activate(now)
		}
		w.plans.Put(row.ID, row)
		if out = detached(*row); !in.Draft || p.srv.reads().draftMakesEvent {
			e = p.srv.emitPlan(TreatmentPlanCreated, row)
		}
		return nil
	})
	return out, e, err
}

// ActivatePlan lets a practitioner send a draft to its patient:
// treatment_plan.created, unless its creation made that already. It has to name a
// patient and recommend something, but see [SilenceIncompletePlan].
func (p *Platform) ActivatePlan(planID string) (Plan, Event, error) {
	return p.changePlan("ActivatePlan", planID, p.srv.reads().onActivation(), []string{StateDraft}, func(_ *world, row *Plan) error {
		if why := row.unready(p.srv.reads()); why != "" {
			return refused("ActivatePlan", ErrInvalid, "treatment plan %q %s", planID, why)
		}
		row.activate(p.srv.clock.Now())
		return nil
	})
}

// onActivation is the type of the event that activating a draft makes.
func (r *readings) onActivation() string {
	if r.draftMakesEvent {
		return TreatmentPlanUpdated
	}
	return TreatmentPlanCreated
}

// PlanChange is what a practitioner edits; nil leaves a field as it is.
type PlanChange struct {
	PersonalMessage *string
	Recommendations []Recommendation
}

// UpdatePlan lets a practitioner edit a plan that is not cancelled:
// treatment_plan.updated.
func (p *Platform) UpdatePlan(planID string, in PlanChange) (Plan, Event, error) {
	return p.changePlan("UpdatePlan", planID, TreatmentPlanUpdated, []string{StateDraft, StateActive}, func(w *world, row *Plan) error {
		set(&row.PersonalMessage, in.PersonalMessage)
		if in.Recommendations != nil {
			row.Recommendations = cloneRecommendations(in.Recommendations)
		}
		return w.recommendationsFit("UpdatePlan", row)
	})
}

// UpdateRecommendation lets a practitioner edit the line of a plan that has the
// same variant: treatment_plan.recommendation.updated. That the event's data is
// the whole plan is an assumption.
func (p *Platform) UpdateRecommendation(planID string, in Recommendation) (Plan, Event, error) {
	return p.changePlan("UpdateRecommendation", planID, TreatmentPlanRecommendation, []string{StateDraft, StateActive}, func(w *world, row *Plan) error {
		at := slices.IndexFunc(row.Recommendations, func(r Recommendation) bool { return r.VariantID == in.VariantID })
		if at < 0 {
			return unknown("UpdateRecommendation", "recommended variant", in.VariantID)
		}
		row.Recommendations = slices.Clone(row.Recommendations)
		row.Recommendations[at] = cloneRecommendations([]Recommendation{in})[0]
		return w.recommendationsFit("UpdateRecommendation", row)
	})
}

// CancelPlan lets a practitioner cancel an active plan: treatment_plan.updated.
func (p *Platform) CancelPlan(planID string) (Plan, Event, error) {
	return p.changePlan("CancelPlan", planID, TreatmentPlanUpdated, []string{StateActive}, func(_ *world, row *Plan) error {
		row.cancel(p.srv.clock.Now())
		return nil
	})
}

func (p *Platform) changePlan(action, planID, kind string, from []string, change func(*world, *Plan) error) (out Plan, e Event, err error) {
	err = p.act(func(w *world) error {
		old, known := w.plans.Get(planID)
		if !known {
			return unknown(action, "treatment plan", planID)
		}
		if !slices.Contains(from, old.State) {
			return refused(action, ErrState, "treatment plan %q is %s", planID, old.State)
		}
		row := *old
		if err := change(w, &row); err != nil {
			return err
		}
		row.UpdatedAt = p.srv.eventTime(planID)
		w.plans.Put(planID, &row)
		out, e = detached(row), p.srv.emitPlan(kind, &row)
		return nil
	})
	return out, e, err
}

// emitPlan makes the event of a plan's update, with the dosage as event data spells it.
func (s *Server) emitPlan(kind string, p *Plan) Event {
	return s.emitAt(p.UpdatedAt, kind, p.ClinicID, p.ID, struct {
		Plan planView[eventDosageView] `json:"treatment_plan"`
	}{viewPlanWith(s, p, viewEventDosage)})
}

func (w *world) recommendationsFit(action string, p *Plan) error {
	for _, r := range p.Recommendations {
		if _, known := w.variants.Get(r.VariantID); !known {
			return unknown(action, "variant", r.VariantID)
		}
		if r.UnitsToPurchase < 1 {
			return refused(action, ErrInvalid, "%d is not a number of units", r.UnitsToPurchase)
		}
	}
	return nil
}
