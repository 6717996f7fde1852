package httpapi

import (
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func listPatients(c *Call, w *store.World) (reply, error) {
	return listOf(c, w.Patients.Span(store.PatientsByClinic, c.clinicID()).Created(), view.PatientItem), nil
}

// searchPatients matches every word of the query with first name, last name or
// e-mail address, whatever its case.
func searchPatients(c *Call, w *store.World) (reply, error) {
	words := strings.Fields(strings.ToLower(c.params.get("query")))
	found := w.PatientSearch.Find(w.PatientSearch.Having(table.Facet{Kind: store.FacetClinic, ID: c.clinicID()}), words)
	return listOf(c, w.Patients.List(found), view.PatientItem), nil
}

func getPatient(c *Call, w *store.World) (reply, error) {
	p, known := w.PatientOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	return ok(view.Patient(w, p)), nil
}

func createPatient(c *Call, w *store.World) (reply, error) {
	p := &model.Patient{ClinicID: c.clinicID()}
	readPatient(c.form, p, true)
	p.Welcomed = c.form.truth("send_welcome_email").or(true)
	if err := checkPatient(w, c.form, p); err != nil {
		return reply{}, err
	}
	p.ID = w.NewID("patient")
	w.PutPatient(p)
	return created(view.Patient(w, p)), nil
}

func updatePatient(c *Call, w *store.World) (reply, error) {
	old, known := w.PatientOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	p := *old
	readPatient(c.form, &p, false)
	if err := checkPatient(w, c.form, &p); err != nil {
		return reply{}, err
	}
	w.PutPatient(&p)
	return ok(view.Patient(w, &p)), nil
}

// readPatient takes over the fields that were sent.
func readPatient(f *form, p *model.Patient, isNew bool) {
	readPerson(f, &p.FirstName, &p.LastName, &p.Email, isNew)
	f.day("date_of_birth").change(&p.DateOfBirth)
	f.choice("gender", model.Male, model.Female, model.X).change(&p.Gender)
	mobile := f.text("mobile_number")
	if mobile.is != "" && !store.MobileNumber.MatchString(mobile.is) {
		f.complain("mobile_number", "must be in international form, a + and digits")
	}
	mobile.change(&p.MobileNumber)
	f.percent("discount").change(&p.Discount)
	readMetadata(f, &p.MetadataID)
}

// checkPatient is what only the whole platform can tell.
func checkPatient(w *store.World, f *form, p *model.Patient) error {
	if p.Email != "" && w.EmailTaken(p.Email, p.ID) {
		f.complain("email", "has already been taken")
	}
	return f.err()
}
