package pages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/people"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// readEdit reads the editor's form. Lines that were taken out are left out.
func (v *visitor) readEdit() (people.PlanEdit, error) {
	edit := people.PlanEdit{Message: strings.ReplaceAll(v.field("message"), "\r\n", "\n"), PractitionerID: v.field("practitioner"), Lines: []model.Recommendation{}}
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

// arrange carries out what changes the form alone: a pack that is put in or taken
// out. It tells whether there was such a thing to do.
func arrange(e *people.PlanEdit, do string) bool {
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
