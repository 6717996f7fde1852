package fhir

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
)

// PatientOptions are the choices for [PatientCreate].
type PatientOptions struct {
	// SendWelcomeEmail is whether the platform sends a welcome e-mail to the patient. It is
	// required, because the platform would send one by default, also to each patient of an import.
	SendWelcomeEmail api.Optional[bool]

	// MetadataSystem is the system of the identifier that becomes the metadata ID, for example of
	// the medical record number. Empty means Patient.id.
	MetadataSystem string
}

// PatientCreate reads a patient of the EHR:
//
//   - The name is the official one, otherwise the usual one, otherwise the one without a use.
//     Names with another use and names outside their period are ignored, and text is not split.
//     FirstName is the first given name.
//   - The e-mail address is the one with the lowest rank, and otherwise the first one. An address
//     for work is used only if there is no other.
//   - The mobile number needs the use "mobile", a plus sign and the country code.
//   - A birth date without a day is an error.
//   - The genders male and female stay. Assumption: other becomes [clinic.GenderX]. Unknown is
//     left out. Extensions, such as the sex of US Core, are not read.
//   - The metadata ID is chosen by [PatientOptions].
//
// Name, e-mail address and metadata ID are required. Two different names of the same use, and two
// values of the identifier, are contradictory.
//
// The error is an [*api.ArgumentError], or [api.ArgumentErrors] for several. Its field is the
// FHIR path, such as "Patient.birthDate", or "fhir.PatientOptions.SendWelcomeEmail". The result
// contains everything else, for example to fill a form. It is empty if the patient is inactive,
// deceased or replaced: "Patient.active", "Patient.deceased", "Patient.link[0]".
//
// To go without an optional element, such as an incomplete birth date, clear it in p. Periods are
// compared with the day in UTC.
func PatientCreate(p Patient, o PatientOptions) (clinic.PatientCreate, error) {
	r := patientReader{today: time.Now().UTC().Format(time.DateOnly)}
	r.checkRecord(p)
	if err := r.wrong.err(); err != nil {
		return clinic.PatientCreate{}, err
	}
	c := clinic.PatientCreate{
		MobileNumber: r.mobileNumber(p.Telecom), DateOfBirth: r.birthDate(p.BirthDate), Gender: r.gender(p.Gender),
		SendWelcomeEmail: o.SendWelcomeEmail, Metadata: clinic.Metadata{ID: r.metadataID(p, o.MetadataSystem)},
	}
	c.FirstName, c.LastName = r.name(p.Name)
	c.Email, _ = r.best(p.Telecom, "email", "")
	r.wrong.require("Patient.telecom.where(system='email')", c.Email)
	if _, chosen := o.SendWelcomeEmail.Get(); !chosen {
		r.wrong.add("fhir.PatientOptions.SendWelcomeEmail", "must be true or false")
	}
	return c, r.wrong.err()
}

// problems collects the wrong arguments.
type problems api.ArgumentErrors

func (p *problems) add(field, reason string) {
	*p = append(*p, &api.ArgumentError{Field: field, Record: strings.HasPrefix(field, "Patient."), Reason: reason})
}

func (p *problems) require(field, value string) {
	if value == "" {
		p.add(field, "can't be blank")
	}
}

func (p problems) err() error { return api.ArgumentErrors(p).Err() }

// patientReader reads the elements of a Patient, and collects those that are wrong.
type patientReader struct {
	today string // yyyy-mm-dd
	wrong problems
}

func (r *patientReader) checkRecord(p Patient) {
	if p.ResourceType != "Patient" {
		r.wrong.add("Patient.resourceType", "must be Patient")
	}
	if p.Active != nil && !*p.Active {
		r.wrong.add("Patient.active", "is false")
	}
	if p.DeceasedBoolean || p.DeceasedDateTime != "" {
		r.wrong.add("Patient.deceased", "reports a death")
	}
	for i, link := range p.Link {
		if link.Type == "replaced-by" {
			r.wrong.add(fmt.Sprintf("Patient.link[%d]", i), "replaces this record: use the other one")
		}
	}
}

// contains reports whether day, as yyyy-mm-dd, is in the period. The zero Period has no limits.
func (p Period) contains(day string) bool {
	start, end := day[:min(len(p.Start), len(day))], day[:min(len(p.End), len(day))] // as precise as the period
	return p.Start[:len(start)] <= start && end <= p.End[:len(end)]
}

func (r *patientReader) name(names []HumanName) (first, last string) {
	for _, use := range []string{"official", "usual", ""} {
		at := -1
		for i, n := range names {
			given, family := strings.TrimSpace(cmp.Or(n.Given...)), strings.TrimSpace(n.Family)
			switch {
			case n.Use != use, given+family == "", !n.Period.contains(r.today):
			case at < 0:
				at, first, last = i, given, family
			case given != first, family != last:
				r.wrong.add("Patient.name", "contains different current names with the same use")
				return "", ""
			}
		}
		if at >= 0 {
			r.wrong.require(fmt.Sprintf("Patient.name[%d].given", at), first)
			r.wrong.require(fmt.Sprintf("Patient.name[%d].family", at), last)
			return first, last
		}
	}
	r.wrong.add("Patient.name", "contains no current official or usual name in parts")
	return "", ""
}

// best returns the value and the index of the current contact point with the lowest rank. Those
// without a rank follow, and those for work are last. An empty use means any.
func (r *patientReader) best(points []ContactPoint, system, use string) (value string, at int) {
	lowest := 0
	for i, c := range points {
		text := strings.TrimSpace(c.Value)
		if c.System != system || use != "" && c.Use != use || c.Use == "old" || text == "" || !c.Period.contains(r.today) {
			continue
		}
		order := cmp.Or(c.Rank, 1<<20)
		if c.Use == "work" {
			order += 1 << 21
		}
		if value == "" || order < lowest {
			value, at, lowest = text, i, order
		}
	}
	return value, at
}

var (
	phoneSeparators = strings.NewReplacer(" ", "", "\u00a0", "", "-", "", ".", "", "/", "", "(", "", ")", "")
	phoneNumber     = regexp.MustCompile(`^\+[1-9][0-9]{7,14}$`)
)

func (r *patientReader) mobileNumber(points []ContactPoint) string {
	text, at := r.best(points, "phone", "mobile")
	number := phoneSeparators.Replace(text)
	// In +44 (0)20, the zero is not part of the international number.
	if text != "" && !phoneNumber.MatchString(number) || strings.Contains(text, "(0") {
		r.wrong.add(fmt.Sprintf("Patient.telecom[%d].value", at), "is not a plus sign, the country code and the number")
		return ""
	}
	return number
}

func (r *patientReader) birthDate(text string) api.Date {
	day, err := api.ParseDate(text)
	if err != nil && text != "" {
		r.wrong.add("Patient.birthDate", "is not a whole day")
	}
	return day
}

var genders = map[string]clinic.Gender{"male": clinic.GenderMale, "female": clinic.GenderFemale, "other": clinic.GenderX, "unknown": "", "": ""}

func (r *patientReader) gender(code string) clinic.Gender {
	gender, known := genders[code]
	if !known {
		r.wrong.add("Patient.gender", "is not a code of FHIR R4")
	}
	return gender
}

func (r *patientReader) metadataID(p Patient, system string) (id string) {
	if system == "" {
		r.wrong.require("Patient.id", p.ID)
		return p.ID
	}
	for _, i := range p.Identifier {
		value := strings.TrimSpace(i.Value)
		switch {
		case i.System != system, i.Use == "old", value == "", !i.Period.contains(r.today):
		case id != "" && id != value:
			r.wrong.add("Patient.identifier", "contains different current values of PatientOptions.MetadataSystem")
			return ""
		default:
			id = value
		}
	}
	r.wrong.require("Patient.identifier", id)
	return id
}
