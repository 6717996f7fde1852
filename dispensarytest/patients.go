package dispensarytest

import (
	"net/mail"
	"regexp"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// personItem is a patient in list and search responses.
type personItem struct {
	ID        string `json:"id"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	Email     string `json:"email"`
}

// patientView is a patient. API section: "Patient".
type patientView struct {
	ID               string        `json:"id"`
	FirstName        string        `json:"first_name"`
	LastName         string        `json:"last_name"`
	Email            string        `json:"email"`
	DateOfBirth      *string       `json:"date_of_birth"`
	Gender           *string       `json:"gender"`
	Discount         float64       `json:"discount"`
	TotalDiscount    float64       `json:"total_discount"`
	MobileNumber     *string       `json:"mobile_number"`
	TextNotification any           `json:"text_message_notification"`
	Metadata         *metadataView `json:"metadata,omitempty"`
}

// metadataView holds the integrator's identifier.
type metadataView struct {
	ID *string `json:"id"`
}

func viewMetadata(id string) *metadataView { return &metadataView{ID: orNull(id)} }

func viewPatientItem(p *Patient) personItem {
	return personItem{ID: p.ID, FirstName: p.FirstName, LastName: p.LastName, Email: p.Email}
}

func (w *world) viewPatient(p *Patient) patientView {
	return patientView{
		ID: p.ID, FirstName: p.FirstName, LastName: p.LastName, Email: p.Email,
		DateOfBirth: orNull(p.DateOfBirth), Gender: orNull(p.Gender),
		Discount: p.Discount, TotalDiscount: w.totalDiscount(p), MobileNumber: orNull(p.MobileNumber),
		TextNotification: p.TextNotification, Metadata: viewMetadata(p.MetadataID),
	}
}

// totalDiscount adds the clinic's discount. That it ends at 100 is an assumption:
// nobody pays less than nothing.
func (w *world) totalDiscount(p *Patient) float64 {
	return min(p.Discount+w.clinic(p.ClinicID).Discount, 100)
}

func listPatients(c *call, w *world) (reply, error) {
	return listOf(c, w.patients.Span(patientsByClinic, c.clinicID()).Created(), viewPatientItem), nil
}

// searchPatients matches every word of the query with first name, last name or
// e-mail address, whatever its case.
func searchPatients(c *call, w *world) (reply, error) {
	words := strings.Fields(strings.ToLower(c.params.get("query")))
	found := w.patientSearch.Find(w.patientSearch.Having(table.Facet{Kind: facetClinic, ID: c.clinicID()}), words)
	return listOf(c, w.patients.List(found), viewPatientItem), nil
}

func getPatient(c *call, w *world) (reply, error) {
	p, known := w.patientOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	return ok(w.viewPatient(p)), nil
}

func createPatient(c *call, w *world) (reply, error) {
	p := &Patient{ClinicID: c.clinicID()}
	readPatient(c.form, p, true)
	p.Welcomed = c.form.truth("send_welcome_email").or(true)
	if err := w.checkPatient(c.form, p); err != nil {
		return reply{}, err
	}
	p.ID = w.newID("patient")
	w.putPatient(p)
	return created(w.viewPatient(p)), nil
}

func updatePatient(c *call, w *world) (reply, error) {
	old, known := w.patientOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	p := *old
	readPatient(c.form, &p, false)
	if err := w.checkPatient(c.form, &p); err != nil {
		return reply{}, err
	}
	w.putPatient(&p)
	return ok(w.viewPatient(&p)), nil
}

// readPatient takes over the fields that were sent.
func readPatient(f *form, p *Patient, isNew bool) {
	readPerson(f, &p.FirstName, &p.LastName, &p.Email, isNew)
	f.day("date_of_birth").change(&p.DateOfBirth)
	f.choice("gender", Male, Female, X).change(&p.Gender)
	mobile := f.text("mobile_number")
	if mobile.is != "" && !mobileNumber.MatchString(mobile.is) {
		f.complain("mobile_number", "must be in international form, a + and digits")
	}
	mobile.change(&p.MobileNumber)
	f.percent("discount").change(&p.Discount)
	readMetadata(f, &p.MetadataID)
}

var mobileNumber = regexp.MustCompile(`^\+[0-9]{7,15}$`)

// readPerson takes over names and address; a new person needs all three.
func readPerson(f *form, first, last, email *string, isNew bool) {
	f.word("first_name", isNew).change(first)
	f.word("last_name", isNew).change(last)
	address := f.word("email", isNew)
	if address.is != "" && !validEmail(address.is) {
		f.complain("email", "is not an e-mail address")
	}
	address.change(email)
}

func validEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}

func readMetadata(f *form, id *string) {
	metadata := f.object("metadata")
	switch value, sent := f.values["metadata"]; {
	case metadata != nil:
		metadata.text("id").change(id)
	case sent && value == nil:
		*id = "" // null takes the identifier away: an assumption
	}
}

// checkPatient is what only the whole platform can tell.
func (w *world) checkPatient(f *form, p *Patient) error {
	if p.Email != "" && w.emailTaken(p.Email, p.ID) {
		f.complain("email", "has already been taken")
	}
	return f.err()
}
