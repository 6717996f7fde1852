package dispensarytest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// planEdit is a plan as it stands in the editor: nothing of it has happened yet.
type planEdit struct {
	patientID      string // where the plan has none
	practitionerID string // of a new plan
	message        string
	lines          []Recommendation
}

// readEdit reads the editor's form. Lines that were taken out are left out.
func (v *visitor) readEdit() (planEdit, error) {
	edit := planEdit{message: strings.ReplaceAll(v.field("message"), "\r\n", "\n"), practitionerID: v.field("practitioner"), lines: []Recommendation{}}
	var wrong error
	for i := range maxLines {
		variant := v.indexed("variant", i)
		if variant == "" {
			break
		}
		units, err := strconv.Atoi(v.indexed("units", i))
		if err != nil {
			wrong = fmt.Errorf("%q is not a number of units", v.indexed("units", i))
		}
		line := Recommendation{VariantID: variant, UnitsToPurchase: units, Refill: v.indexed("refill", i) != ""}
		dosage := Dosage{
			Amount: v.indexed("amount", i), Frequency: v.indexed("frequency", i), Duration: v.indexed("duration", i),
			Format: v.indexed("format", i), AdditionalInfo: v.indexed("info", i),
		}
		if dosage != (Dosage{}) {
			line.Dosage = &dosage
		}
		edit.lines = append(edit.lines, line)
	}
	if email := v.field("patient"); email != "" {
		v.srv.look(func(w *world) {
			if p, known := w.patientByEmail(email); known && p.ClinicID == v.clinicID {
				edit.patientID = p.ID
			} else if wrong == nil {
				wrong = fmt.Errorf("no patient has the e-mail address %q", email)
			}
		})
	}
	return edit, wrong
}

// arrange carries out what changes the form alone: a pack that is put in or taken
// out. It tells whether there was such a thing to do.
func (e *planEdit) arrange(do string) bool {
	what, which, _ := strings.Cut(do, ":")
	switch what {
	case "add":
		if len(e.lines) < maxLines {
			e.lines = append(e.lines, Recommendation{VariantID: which, UnitsToPurchase: 1})
		}
	case "remove":
		if i, err := strconv.Atoi(which); err == nil && i >= 0 && i < len(e.lines) {
			e.lines = slices.Delete(e.lines, i, i+1)
		}
	case "find", "show", "":
	default:
		return false
	}
	return true
}

// savePlan lets the practitioner of a plan save it from the editor:
// treatment_plan.updated, or treatment_plan.recommendation.updated where a single
// line of a sent plan changed. What is as it was makes no event.
func (p *Platform) savePlan(planID string, e planEdit) (Event, error) {
	old, _ := p.Plan(planID)
	changed, sameRest := e.changedLines(old)
	unchanged := sameRest && len(changed) == 0 && e.message == old.PersonalMessage && e.patientID == ""
	switch {
	case unchanged && old.State != StateCancelled:
		return Event{}, nil
	case sameRest && len(changed) == 1 && e.message == old.PersonalMessage && old.State == StateActive:
		_, event, err := p.UpdateRecommendation(planID, changed[0])
		return event, err
	}
	_, event, err := p.changePlan("UpdatePlan", planID, TreatmentPlanUpdated, []string{StateDraft, StateActive}, e.apply)
	return event, err
}

// sendPlan lets the practitioner of a draft save it and send it to its patient at
// once: the event of [Platform.ActivatePlan], with the plan as it was sent.
func (p *Platform) sendPlan(planID string, e planEdit) (Event, error) {
	_, event, err := p.changePlan("ActivatePlan", planID, p.srv.reads().onActivation(), []string{StateDraft}, func(w *world, row *Plan) error {
		if err := e.apply(w, row); err != nil {
			return err
		}
		switch {
		case row.PatientID == "":
			return refused("ActivatePlan", ErrInvalid, "a plan is sent to a patient, and this one has none")
		case len(row.Recommendations) == 0:
			return refused("ActivatePlan", ErrInvalid, "a plan recommends at least one product")
		}
		row.activate(p.srv.clock.Now())
		return nil
	})
	return event, err
}

// apply puts the edit into the plan's new row. The patient is one of the plan's
// clinic; see readEdit.
func (e planEdit) apply(w *world, row *Plan) error {
	if row.PatientID == "" {
		row.PatientID = e.patientID
	}
	row.PersonalMessage, row.Recommendations = e.message, cloneRecommendations(e.lines)
	return w.recommendationsFit("UpdatePlan", row)
}

// changedLines finds the lines that differ, and tells whether the plan has the
// same variants in the same places.
func (e planEdit) changedLines(old Plan) (changed []Recommendation, same bool) {
	if len(e.lines) != len(old.Recommendations) {
		return nil, false
	}
	for i, line := range e.lines {
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
func sameLine(a, b Recommendation) bool {
	var x, y Dosage
	if a.Dosage != nil {
		x = *a.Dosage
	}
	if b.Dosage != nil {
		y = *b.Dosage
	}
	return a.UnitsToPurchase == b.UnitsToPurchase && a.Refill == b.Refill && x == y
}
