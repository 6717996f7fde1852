package form

import (
	"regexp"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Field describes a text of a row. Requests, actions of people and world files follow the same
// description.
type Field struct {
	Name     string
	To       *string // in the row
	Required bool    // in a new row; never blank
	Reason   string  // for rejecting a text, after the name
	Fits     func(string) bool
}

func (f Field) fits(text string) bool { return f.Fits == nil || f.Fits(text) }

// Problem returns the reason for rejecting the text in the row, or "". A text that is not
// required may be empty.
func (f Field) Problem() string {
	text := strings.TrimSpace(*f.To)
	switch reason := beyond(*f.To, maxText); {
	case text == "" && f.Required:
		return Blank
	case reason != "" || *f.To == "":
		return reason
	case !f.fits(*f.To):
		return f.Reason
	}
	return ""
}

// Reasons for rejecting a value, after its name.
const (
	Blank   = "can't be blank"
	Taken   = "has already been taken"
	Unknown = "must exist"
)

var mobileNumber = regexp.MustCompile(`^(\+[0-9]{7,15})?$`)

// Person describes the names and the e-mail address of a patient, practitioner or staff
// member.
func Person(first, last, email *string) []Field {
	return []Field{
		{Name: "first_name", To: first, Required: true}, {Name: "last_name", To: last, Required: true},
		{Name: "email", To: email, Required: true, Fits: store.ValidEmail, Reason: "is not an e-mail address"},
	}
}

// Patient describes the texts of a patient.
func Patient(p *model.Patient) []Field {
	return append(Person(&p.FirstName, &p.LastName, &p.Email),
		Field{Name: "date_of_birth", To: &p.DateOfBirth, Fits: store.ValidDay, Reason: "must be a date (yyyy-mm-dd)"},
		choice("gender", &p.Gender, store.GenderMale, store.GenderFemale, store.GenderX),
		Field{Name: "mobile_number", To: &p.MobileNumber, Fits: mobileNumber.MatchString, Reason: "must be in international form, a + and digits"})
}

// Status describes the status of a variant.
func Status(to *string) Field {
	return choice("status", to, model.VariantAvailable, model.VariantBackordered, model.VariantDiscontinued, model.VariantUnavailable, model.VariantVendorBackorder)
}

// Ownership describes the ownership of a protocol.
func Ownership(to *string) Field {
	return choice("ownership", to, store.ProtocolOwned, store.ProtocolShared)
}

func choice(name string, to *string, allowed ...string) Field {
	return Field{
		Name: name, To: to, Reason: "must be one of " + strings.Join(allowed, ", "),
		Fits: func(text string) bool { return slices.Contains(allowed, text) },
	}
}
