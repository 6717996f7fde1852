package pages

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/actions"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// planPage contains the data of the editor.
type planPage struct {
	New           bool
	State         string
	Patient       string // "" if a patient must be chosen
	PatientEmail  string // as typed
	Patients      []model.Patient
	Practitioner  string
	Practitioners []model.Practitioner // choices for a new plan
	Chosen        string               // id of the chosen practitioner
	Text          string
	Lines         []linePage
	Query         string
	Found         []variantView
}

// linePage is one line of the editor.
type linePage struct {
	variantView
	Units  int
	Refill bool
	Dosage model.Dosage
}

// maxChoices is the number of patients that the editor suggests. Other patients can still be
// found by email address.
const maxChoices = 100

// notices are the messages after an action, by the value in the URL.
var notices = map[string]string{
	"saved":     "The plan was saved.",
	"sent":      "The plan was sent to the patient.",
	"cancelled": "The plan was cancelled.",
}

// newPlan shows the editor behind a clinic's link for a new plan. Without a clinic in the
// link, it uses the first clinic.
func (v *visitor) newPlan() {
	asked, known := v.r.URL.Query().Get("clinic"), false
	v.Store.Look(func(w *store.World) {
		v.clinicID = cmp.Or(asked, w.Clinics.Rows[0].ID)
		_, known = table.Get(w.Clinics, v.clinicID)
	})
	if !known {
		_ = v.problem(http.StatusNotFound, "There is no such clinic.")
		return
	}
	v.editor(model.Plan{State: model.PlanStateDraft}, actions.PlanEdit{Lines: []model.Recommendation{}}, v.createPlan)
}

// editor shows the editor. After a form with a button that changes the plan, it calls change.
func (v *visitor) editor(plan model.Plan, edit actions.PlanEdit, change func(do string, edit actions.PlanEdit) error) {
	if !v.posted() {
		v.showPlan(http.StatusOK, "", plan, edit)
		return
	}
	edit, err := v.readEdit()
	do := v.field("do")
	if arrange(&edit, do) {
		v.showPlan(http.StatusOK, "", plan, edit)
		return
	}
	if err == nil || do == "cancel" && plan.ID != "" { // a cancellation ignores the entered values
		err = change(do, edit)
	}
	if err != nil {
		v.showPlan(http.StatusUnprocessableEntity, inWords(err), plan, edit)
	}
}

// createPlan creates the plan and redirects to its URL.
func (v *visitor) createPlan(do string, e actions.PlanEdit) error {
	switch {
	case e.PatientID == "":
		return store.Rejected("CreatePlan", model.ErrValidation, "a plan needs a patient: enter the e-mail address of the patient")
	case len(e.Lines) == 0:
		return store.Rejected("CreatePlan", model.ErrValidation, "the plan must recommend at least one product")
	}
	plan, _, err := v.Actions.Plans.Create(e.PatientID, model.PlanCreate{
		PractitionerID: e.PractitionerID, PersonalMessage: e.Message, Recommendations: e.Lines, Draft: do != "send",
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

// editPlan shows the editor behind a plan's dynamic link.
func (v *visitor) editPlan() {
	plan, known := v.Actions.Plans.Get(v.id)
	if !known {
		_ = v.problem(http.StatusNotFound, "There is no such treatment plan.")
		return
	}
	v.clinicID = plan.ClinicID
	v.editor(plan, actions.PlanEdit{Message: plan.PersonalMessage, Lines: plan.Recommendations}, v.changePlan)
}

// changePlan performs the action of a button in the editor.
func (v *visitor) changePlan(do string, e actions.PlanEdit) (err error) {
	var done string
	switch do {
	case "save":
		done = "saved"
		_, err = v.Actions.Plans.Save(v.id, e)
	case "send":
		done = "sent"
		_, err = v.Actions.Plans.Send(v.id, e)
	case "cancel":
		done = "cancelled"
		_, _, err = v.Actions.Plans.Cancel(v.id)
	default:
		err = store.Rejected("UpdatePlan", model.ErrValidation, "the form has no button %q", do)
	}
	if err == nil {
		v.leave("?done=" + done)
	}
	return err
}

// showPlan shows the editor with the values entered so far.
func (v *visitor) showPlan(status int, message string, plan model.Plan, e actions.PlanEdit) {
	page := planPage{
		New: plan.ID == "", State: plan.State, Text: e.Message, Chosen: e.PractitionerID,
		PatientEmail: v.field("patient"), Query: v.field("query"),
	}
	v.Store.Look(func(w *store.World) {
		page.Found = findPacks(w, page.Query)
		for _, line := range e.Lines {
			shown := linePage{variantView: packOf(w, line.VariantID), Units: line.UnitsToPurchase, Refill: line.Refill}
			if line.Dosage != nil {
				shown.Dosage = *line.Dosage
			}
			page.Lines = append(page.Lines, shown)
		}
		page.people(w, plan, v.clinicID)
	})
	f := &Frame{Title: "Treatment plan", Message: message}
	if !v.posted() {
		f.Notice = notices[v.r.URL.Query().Get("done")]
	}
	v.show(status, "plan", f, page)
}

// people sets the people of the plan and the choices of the clinic.
func (page *planPage) people(w *store.World, plan model.Plan, clinicID string) {
	if p, known := table.Get(w.Patients, plan.PatientID); known {
		page.Patient = fullName(p.FirstName, p.LastName, p.Email)
	} else {
		patients := table.Of(w.Patients, store.ByClinic, clinicID)
		page.Patients = table.Map(patients[:min(len(patients), maxChoices)], func(p *model.Patient) model.Patient { return *p })
	}
	if p, known := table.Get(w.Practitioners, plan.PractitionerID); known {
		page.Practitioner = fullName(p.FirstName, p.LastName, p.Email)
	}
	if page.New {
		page.Practitioners = table.Map(table.Of(w.Practitioners, store.ByClinic, clinicID), func(p *model.Practitioner) model.Practitioner { return *p })
	}
}

// readEdit reads the editor's form. Removed lines are absent from it.
func (v *visitor) readEdit() (actions.PlanEdit, error) {
	edit := actions.PlanEdit{Message: strings.ReplaceAll(v.field("message"), "\r\n", "\n"), PractitionerID: v.field("practitioner"), Lines: []model.Recommendation{}}
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
		line := model.Recommendation{VariantID: variant, UnitsToPurchase: units, Refill: v.indexed("refill", i) != ""}
		dosage := model.Dosage{
			Amount: v.indexed("amount", i), Frequency: v.indexed("frequency", i), Duration: v.indexed("duration", i),
			Format: v.indexed("format", i), AdditionalInfo: v.indexed("info", i),
		}
		if dosage != (model.Dosage{}) {
			line.Dosage = &dosage
		}
		edit.Lines = append(edit.Lines, line)
	}
	if email := v.field("patient"); email != "" {
		v.Store.Look(func(w *store.World) {
			if p, known := w.PatientByEmail(email); known && p.ClinicID == v.clinicID {
				edit.PatientID = p.ID
			} else if wrong == nil {
				wrong = fmt.Errorf("no patient has the e-mail address %q", email)
			}
		})
	}
	return edit, wrong
}

// arrange performs changes of the form only, such as adding or removing a pack. It reports
// whether do is such a change.
func arrange(e *actions.PlanEdit, do string) bool {
	what, which, _ := strings.Cut(do, ":")
	switch what {
	case "add":
		if len(e.Lines) < maxLines {
			e.Lines = append(e.Lines, model.Recommendation{VariantID: which, UnitsToPurchase: 1})
		}
	case "remove":
		if i, err := strconv.Atoi(which); err == nil && i >= 0 && i < len(e.Lines) {
			e.Lines = slices.Delete(e.Lines, i, i+1)
		}
	case "find", "show", "":
	default:
		return false
	}
	return true
}

// variantView is a pack of a product on a page.
type variantView struct {
	VariantID string
	Product   string
	Pack      string // "60 capsules"
	Price     model.Cents
	Status    string
}

// packOf describes a variant. Variants that left the catalog keep their place.
func packOf(w *store.World, variantID string) variantView {
	v, known := table.Get(w.Variants, variantID)
	if !known {
		return variantView{VariantID: variantID, Product: "Unknown product"}
	}
	view := variantView{VariantID: v.ID, Pack: packText(v), Price: v.MSRP, Status: v.Status}
	if p, known := table.Get(w.Products, v.ProductID); known {
		view.Product = p.Name
	}
	return view
}

// packText returns the size of a pack, with fallbacks for null fields.
func packText(v *model.Variant) string {
	switch {
	case v.Units == 0:
		return cmp.Or(v.UnitOfMeasure, v.SKU)
	case v.UnitOfMeasure == "":
		return fmt.Sprintf("%d units", v.Units)
	}
	return fmt.Sprintf("%d %s", v.Units, v.UnitOfMeasure)
}

// maxFound is the maximum number of packs in a search result.
const maxFound = 12

// findPacks returns the packs of products whose names contain every word.
func findPacks(w *store.World, query string) (found []variantView) {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil
	}
	for _, p := range table.Of(w.Products, store.Listed, "") {
		name := strings.ToLower(p.Name)
		if slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(name, word) }) {
			continue
		}
		for _, id := range p.VariantIDs {
			if found = append(found, packOf(w, id)); len(found) == maxFound {
				return found
			}
		}
	}
	return found
}

// fullName returns the name of a person for pages. A patient that a dynamic link created may
// have only an email address.
func fullName(first, last, email string) string {
	return cmp.Or(strings.TrimSpace(first+" "+last), email)
}
