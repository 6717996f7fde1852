package form

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Field describes a text. Requests, actions of people and world files follow the same
// description.
type Field struct {
	Name     string
	To       *string  // in the row
	Required bool     // in a new row; never blank
	Allowed  []string // all texts, or nil for any
	Fits     func(string) bool
	Reason   string // for rejecting a text that does not fit, after the name
	most     int    // characters: maxText by default
}

// Maximum lengths of texts in characters: assumptions.
const (
	maxText  = 255
	maxProse = 65_535
)

// Problem returns the reason for rejecting the text in the row, or "". A text that is not
// required may be empty.
func (f Field) Problem() string {
	if *f.To == "" && !f.Required {
		return ""
	}
	return f.reject(*f.To)
}

// reject returns the reason for rejecting a text, or "".
func (f Field) reject(text string) string {
	most := cmp.Or(f.most, maxText)
	switch {
	case strings.ContainsRune(text, 0):
		return "must not contain a NUL character"
	case utf8.RuneCountInString(text) > most:
		return fmt.Sprintf("is too long (maximum is %d characters)", most)
	case f.Required && strings.TrimSpace(text) == "":
		return Blank
	case f.Allowed != nil && !slices.Contains(f.Allowed, text):
		return "must be one of " + strings.Join(f.Allowed, ", ")
	case f.Fits != nil && !f.Fits(text):
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
		Field{Name: "gender", To: &p.Gender, Allowed: []string{store.GenderMale, store.GenderFemale, store.GenderX}},
		Field{Name: "mobile_number", To: &p.MobileNumber, Fits: mobileNumber.MatchString, Reason: "must be in international form, a + and digits"})
}

// Status describes the status of a variant.
func Status(to *string) Field {
	return Field{Name: "status", To: to, Allowed: []string{
		model.VariantAvailable, model.VariantBackordered, model.VariantDiscontinued, model.VariantUnavailable, model.VariantVendorBackorder,
	}}
}

// Ownership describes the ownership of a protocol.
func Ownership(to *string) Field {
	return Field{Name: "ownership", To: to, Allowed: []string{store.ProtocolOwned, store.ProtocolShared}}
}
