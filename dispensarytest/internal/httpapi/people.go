package httpapi

import (
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// readPerson reads the names and the email address. A new person needs all three.
func readPerson(f *form, first, last, email *string, isNew bool) {
	f.word("first_name", isNew).change(first)
	f.word("last_name", isNew).change(last)
	address := f.word("email", isNew)
	if address.is != "" && !store.ValidEmail(address.is) {
		f.complain("email", "is not an e-mail address")
	}
	address.change(email)
}

func readMetadata(f *form, id *string) {
	metadata := f.object("metadata")
	switch value, sent := f.values["metadata"]; {
	case metadata != nil:
		metadata.text("id").change(id)
	case sent && value == nil:
		*id = "" // null removes the identifier: an assumption
	}
}

func checkUserEmail(w *store.World, f *form, email, id string) {
	if email != "" && w.UserEmailTaken(email, id) {
		f.complain("email", "has already been taken")
	}
}

func listPatients(c *call, w *store.World) (reply, error) {
	return listOf(c, table.Where(w.Patients, func(p *model.Patient) bool { return p.ClinicID == c.clinicID() }), view.PatientItem), nil
}

// searchPatients returns patients for whom every word of the query occurs in the first name,
// the last name or the email address. It ignores case.
func searchPatients(c *call, w *store.World) (reply, error) {
	words := strings.Fields(strings.ToLower(c.params.get("query")))
	rows := table.Where(w.Patients, func(p *model.Patient) bool {
		return p.ClinicID == c.clinicID() && store.Mentions(p.FirstName+"\n"+p.LastName+"\n"+p.Email, words)
	})
	return listOf(c, rows, view.PatientItem), nil
}

func getPatient(c *call, w *store.World, p *model.Patient) (reply, error) {
	return ok(view.Patient(w, p)), nil
}

func createPatient(c *call, w *store.World) (reply, error) {
	p := &model.Patient{ClinicID: c.clinicID(), CreatedAt: c.now}
	readPatient(c.form, p, true)
	p.Welcomed = c.form.truth("send_welcome_email").or(true)
	if err := checkPatient(w, c.form, p); err != nil {
		return reply{}, err
	}
	p.ID = w.NewID("patient")
	table.Put(&w.Patients, p.ID, p)
	return created(view.Patient(w, p)), nil
}

func updatePatient(c *call, w *store.World, old *model.Patient) (reply, error) {
	p := *old
	readPatient(c.form, &p, false)
	if err := checkPatient(w, c.form, &p); err != nil {
		return reply{}, err
	}
	table.Put(&w.Patients, p.ID, &p)
	return ok(view.Patient(w, &p)), nil
}

// readPatient reads the fields that were sent.
func readPatient(f *form, p *model.Patient, isNew bool) {
	readPerson(f, &p.FirstName, &p.LastName, &p.Email, isNew)
	f.day("date_of_birth").change(&p.DateOfBirth)
	f.choice("gender", store.GenderMale, store.GenderFemale, store.GenderX).change(&p.Gender)
	mobile := f.text("mobile_number")
	if mobile.is != "" && !store.MobileNumber.MatchString(mobile.is) {
		f.complain("mobile_number", "must be in international form, a + and digits")
	}
	mobile.change(&p.MobileNumber)
	f.percent("discount").change(&p.Discount)
	readMetadata(f, &p.MetadataID)
}

// checkPatient checks the patient against the rest of the platform.
func checkPatient(w *store.World, f *form, p *model.Patient) error {
	if p.Email != "" && w.EmailTaken(p.Email, p.ID) {
		f.complain("email", "has already been taken")
	}
	return f.err()
}

// practitionerView is a practitioner. API section: "Practitioner".
type practitionerView struct {
	ID        string             `json:"id"`
	FirstName string             `json:"first_name"`
	LastName  string             `json:"last_name"`
	Email     string             `json:"email"`
	TypeID    string             `json:"practitioner_type_id"`
	Metadata  *view.MetadataView `json:"metadata"`
}

func viewPractitioner(p *model.Practitioner) practitionerView {
	return practitionerView{
		ID: p.ID, FirstName: p.FirstName, LastName: p.LastName, Email: p.Email,
		TypeID: p.TypeID, Metadata: view.Metadata(p.MetadataID),
	}
}

func listPractitioners(c *call, w *store.World) (reply, error) {
	return listOf(c, w.PractitionersOf(c.clinicID()), viewPractitioner), nil
}

func createPractitioner(c *call, w *store.World) (reply, error) {
	p := &model.Practitioner{ClinicID: c.clinicID(), CreatedAt: c.now}
	if err := readPractitioner(w, c.form, p, true); err != nil {
		return reply{}, err
	}
	p.ID = w.NewID("practitioner")
	table.Put(&w.Practitioners, p.ID, p)
	return created(viewPractitioner(p)), nil
}

func updatePractitioner(c *call, w *store.World, old *model.Practitioner) (reply, error) {
	p := *old
	// The API lists this argument as required, and as a parameter of the path.
	c.form.text("practitioner_id")
	if err := readPractitioner(w, c.form, &p, false); err != nil {
		return reply{}, err
	}
	w.SetUserEmail(p.ID, p.Email)
	table.Put(&w.Practitioners, p.ID, &p)
	return ok(viewPractitioner(&p)), nil
}

func readPractitioner(w *store.World, f *form, p *model.Practitioner, isNew bool) error {
	readPerson(f, &p.FirstName, &p.LastName, &p.Email, isNew)
	kind := f.word("practitioner_type_id", isNew)
	kind.change(&p.TypeID)
	if _, known := w.PractitionerTypes.Rows[kind.is]; kind.is != "" && !known {
		f.complain("practitioner_type_id", "must exist")
	}
	readMetadata(f, &p.MetadataID)
	checkUserEmail(w, f, p.Email, p.ID)
	return f.err()
}

// staffView is a member of the office staff. API section: "Staff".
type staffView struct {
	ID        string             `json:"id"`
	FirstName string             `json:"first_name"`
	LastName  string             `json:"last_name"`
	Email     string             `json:"email"`
	Metadata  *view.MetadataView `json:"metadata"`
}

func viewStaff(m *store.StaffMember) staffView {
	return staffView{ID: m.ID, FirstName: m.FirstName, LastName: m.LastName, Email: m.Email, Metadata: view.Metadata(m.MetadataID)}
}

func listStaff(c *call, w *store.World) (reply, error) {
	return listOf(c, table.Where(w.Staff, func(m *store.StaffMember) bool { return m.ClinicID == c.clinicID() }), viewStaff), nil
}

// createStaff requires names and an email address: an assumption, because the API lists no
// arguments.
func createStaff(c *call, w *store.World) (reply, error) {
	m := &store.StaffMember{ClinicID: c.clinicID(), CreatedAt: c.now}
	if err := readStaff(w, c.form, m, true); err != nil {
		return reply{}, err
	}
	m.ID = w.NewID("staff")
	table.Put(&w.Staff, m.ID, m)
	return created(viewStaff(m)), nil
}

func updateStaff(c *call, w *store.World, old *store.StaffMember) (reply, error) {
	m := *old
	if err := readStaff(w, c.form, &m, false); err != nil {
		return reply{}, err
	}
	w.SetUserEmail(m.ID, m.Email)
	table.Put(&w.Staff, m.ID, &m)
	return ok(viewStaff(&m)), nil
}

func readStaff(w *store.World, f *form, m *store.StaffMember, isNew bool) error {
	readPerson(f, &m.FirstName, &m.LastName, &m.Email, isNew)
	readMetadata(f, &m.MetadataID)
	checkUserEmail(w, f, m.Email, m.ID)
	return f.err()
}
