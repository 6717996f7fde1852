package dispensarytest

import (
	"net/http"
)

// planPage is what the editor shows.
type planPage struct {
	New           bool
	State         string
	Patient       string // "" where one is to be chosen
	PatientEmail  string // as it was typed
	Patients      []Patient
	Practitioner  string
	Practitioners []Practitioner // to choose from, of a new plan
	Chosen        string         // the id of the one
	Text          string
	Lines         []linePage
	Query         string
	Found         []packView
}

// linePage is one line of the editor.
type linePage struct {
	packView
	Units  int
	Refill bool
	Dosage Dosage
}

// maxChoices is how many patients the editor offers; others are found by their
// address all the same.
const maxChoices = 100

// notices are what the pages say after an action, by what stands in the address.
var notices = map[string]string{
	"saved":     "The plan was saved.",
	"sent":      "The plan was sent to the patient.",
	"cancelled": "The plan was cancelled.",
}

// newPlan is the editor behind a clinic's link for a new plan; without one it is the
// first clinic's.
func (v *visitor) newPlan() {
	asked, known := v.r.URL.Query().Get("clinic"), false
	v.srv.look(func(w *world) {
		v.clinicID = or(asked, w.clinics.At(0).ID)
		_, known = w.clinics.Get(v.clinicID)
	})
	if !known {
		_ = v.problem(http.StatusNotFound, "There is no such clinic.")
		return
	}
	edit := planEdit{lines: []Recommendation{}}
	if !v.posted() {
		v.showPlan(http.StatusOK, "", Plan{State: StateDraft}, edit)
		return
	}
	edit, err := v.readEdit()
	do := v.field("do")
	if edit.arrange(do) {
		v.showPlan(http.StatusOK, "", Plan{State: StateDraft}, edit)
		return
	}
	if err == nil {
		err = v.createPlan(edit, do)
	}
	if err != nil {
		v.showPlan(http.StatusUnprocessableEntity, inWords(err), Plan{State: StateDraft}, edit)
	}
}

// createPlan makes the plan and shows it at its own address.
func (v *visitor) createPlan(e planEdit, do string) error {
	switch {
	case e.patientID == "":
		return refused("CreatePlan", ErrInvalid, "a plan is for a patient: enter the e-mail address of one")
	case len(e.lines) == 0:
		return refused("CreatePlan", ErrInvalid, "a plan recommends at least one product")
	}
	plan, _, err := v.srv.Platform().CreatePlan(e.patientID, NewPlan{
		PractitionerID: e.practitionerID, PersonalMessage: e.message, Recommendations: e.lines, Draft: do != "send",
	})
	if err != nil {
		return err
	}
	done := "saved"
	if do == "send" {
		done = "sent"
	}
	v.leave("./" + plan.ID + "/edit?done=" + done)
	return nil
}

// editPlan is the editor behind a plan's dynamic link.
func (v *visitor) editPlan() {
	plan, known := v.srv.Platform().Plan(v.id)
	if !known {
		_ = v.problem(http.StatusNotFound, "There is no such treatment plan.")
		return
	}
	v.clinicID = plan.ClinicID
	edit := planEdit{message: plan.PersonalMessage, lines: plan.Recommendations}
	if !v.posted() {
		v.showPlan(http.StatusOK, "", plan, edit)
		return
	}
	edit, err := v.readEdit()
	do := v.field("do")
	if edit.arrange(do) {
		v.showPlan(http.StatusOK, "", plan, edit)
		return
	}
	if err == nil || do == "cancel" { // what was entered does not matter any more
		err = v.changePlan(do, edit)
	}
	if err != nil {
		v.showPlan(http.StatusUnprocessableEntity, inWords(err), plan, edit)
	}
}

// changePlan carries out one of the editor's buttons.
func (v *visitor) changePlan(do string, e planEdit) (err error) {
	var done string
	platform := v.srv.Platform()
	switch do {
	case "save":
		done = "saved"
		_, err = platform.savePlan(v.id, e)
	case "send":
		done = "sent"
		_, err = platform.sendPlan(v.id, e)
	case "cancel":
		done = "cancelled"
		_, _, err = platform.CancelPlan(v.id)
	default:
		err = refused("UpdatePlan", ErrInvalid, "the form has no button %q", do)
	}
	if err == nil {
		v.leave("?done=" + done)
	}
	return err
}

// showPlan shows the editor with what was entered so far.
func (v *visitor) showPlan(status int, message string, plan Plan, e planEdit) {
	page := planPage{
		New: plan.ID == "", State: plan.State, Text: e.message, Chosen: e.practitionerID,
		PatientEmail: v.field("patient"), Query: v.field("query"),
	}
	v.srv.look(func(w *world) {
		page.Found = w.findPacks(page.Query)
		for _, line := range e.lines {
			shown := linePage{packView: w.packOf(line.VariantID), Units: line.UnitsToPurchase, Refill: line.Refill}
			if line.Dosage != nil {
				shown.Dosage = *line.Dosage
			}
			page.Lines = append(page.Lines, shown)
		}
		page.people(w, plan, v.clinicID)
	})
	f := &frame{Title: "Treatment plan", Message: message}
	if !v.posted() {
		f.Notice = notices[v.r.URL.Query().Get("done")]
	}
	v.show(status, "plan", f, page)
}

// people fills in who the plan is of, and who of the clinic can be chosen.
func (page *planPage) people(w *world, plan Plan, clinicID string) {
	if p, known := w.patients.Get(plan.PatientID); known {
		page.Patient = fullName(p.FirstName, p.LastName, p.Email)
	} else {
		patients := w.patients.Span(patientsByClinic, clinicID).Created()
		for _, p := range patients.Part(0, min(patients.N, maxChoices)) {
			page.Patients = append(page.Patients, *p)
		}
	}
	if p, known := w.practitioners.Get(plan.PractitionerID); known {
		page.Practitioner = fullName(p.FirstName, p.LastName, p.Email)
	}
	if page.New {
		for _, p := range w.practitioners.Span(practitionersByClinic, clinicID).Created().All() {
			page.Practitioners = append(page.Practitioners, *p)
		}
	}
}
