package fhir

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/internal/redact"
)

// Patient contains the elements of a FHIR Patient that [PatientCreate] reads. It prints as its
// type and ID: see "Patient data" in package api.
type Patient struct {
	ResourceType     string         `json:"resourceType"`
	ID               string         `json:"id,omitempty"`
	Identifier       []Identifier   `json:"identifier,omitempty"`
	Active           *bool          `json:"active,omitempty"`
	Name             []HumanName    `json:"name,omitempty"`
	Telecom          []ContactPoint `json:"telecom,omitempty"`
	Gender           string         `json:"gender,omitempty"`
	BirthDate        string         `json:"birthDate,omitempty"`
	DeceasedBoolean  bool           `json:"deceasedBoolean,omitempty"`
	DeceasedDateTime string         `json:"deceasedDateTime,omitempty"`
	Link             []PatientLink  `json:"link,omitempty"`
}

// PatientLink refers to another record of the same person.
type PatientLink struct {
	Type string `json:"type,omitempty"`
}

// HumanName is a name of a person. It prints as its type.
type HumanName struct {
	Use    string   `json:"use,omitempty"`
	Family string   `json:"family,omitempty"`
	Given  []string `json:"given,omitempty"`
	Period Period   `json:"period,omitzero"`
}

// ContactPoint is an e-mail address or a phone number. It prints as its type.
type ContactPoint struct {
	System string `json:"system,omitempty"`
	Value  string `json:"value,omitempty"`
	Use    string `json:"use,omitempty"`
	Rank   int    `json:"rank,omitempty"` // 1 is preferred, 0 is no rank
	Period Period `json:"period,omitzero"`
}

// Period is a time span. Start and End are dates or times, and may lack the day or the month.
// End is included.
type Period struct {
	Start string `json:"start,omitempty"`
	End   string `json:"end,omitempty"`
}

// Identifier is a business identifier. System is the URI of its namespace. It prints as its type.
type Identifier struct {
	Use    string `json:"use,omitempty"`
	System string `json:"system,omitempty"`
	Value  string `json:"value,omitempty"`
	Period Period `json:"period,omitzero"`
}

// Reference points to another resource by URL, such as "Patient/17", or by identifier.
type Reference struct {
	Reference  string     `json:"reference,omitempty"`
	Type       string     `json:"type,omitempty"`
	Identifier Identifier `json:"identifier,omitzero"`
}

// Coding is a code of a code system.
type Coding struct {
	System  string `json:"system,omitempty"`
	Code    string `json:"code,omitempty"`
	Display string `json:"display,omitempty"`
}

// CodeableConcept is a concept as text and codes.
type CodeableConcept struct {
	Coding []Coding `json:"coding,omitempty"`
	Text   string   `json:"text,omitempty"`
}

// Quantity is an amount. Value is an exact decimal number.
type Quantity struct {
	Value  json.Number `json:"value,omitempty"`
	Unit   string      `json:"unit,omitempty"`
	System string      `json:"system,omitempty"`
	Code   string      `json:"code,omitempty"`
}

// Range is an amount from Low to High.
type Range struct {
	Low  Quantity `json:"low"`
	High Quantity `json:"high"`
}

// MedicationRequest is a row of the medication list: a recommendation of a plan. It prints as
// its type and ID: see "Patient data" in package api.
//
// It contains only the elements that [Chart.Requests] writes. Do not write a decoded resource
// back to the EHR.
type MedicationRequest struct {
	ResourceType              string            `json:"resourceType"`
	ID                        string            `json:"id,omitempty"`
	Identifier                []Identifier      `json:"identifier,omitempty"`
	Status                    string            `json:"status"`
	Intent                    string            `json:"intent"`
	Category                  []CodeableConcept `json:"category,omitempty"`
	ReportedBoolean           bool              `json:"reportedBoolean"`
	MedicationCodeableConcept CodeableConcept   `json:"medicationCodeableConcept"`
	Subject                   Reference         `json:"subject"`
	AuthoredOn                string            `json:"authoredOn,omitempty"`
	Requester                 Reference         `json:"requester,omitzero"`
	Note                      []Annotation      `json:"note,omitempty"`
	GroupIdentifier           Identifier        `json:"groupIdentifier,omitzero"`
	DosageInstruction         []Dosage          `json:"dosageInstruction,omitempty"`
	DispenseRequest           DispenseRequest   `json:"dispenseRequest,omitzero"`
}

// DispenseRequest is the amount to buy.
type DispenseRequest struct {
	Quantity Quantity `json:"quantity"`
}

// Annotation is a note. It prints as its type.
type Annotation struct {
	Text string `json:"text"`
}

// Dosage is an instruction. Text is complete. Timing and DoseAndRate repeat the parts that are
// certain. It prints as its type.
type Dosage struct {
	Text        string        `json:"text,omitempty"`
	Timing      Timing        `json:"timing,omitzero"`
	DoseAndRate []DoseAndRate `json:"doseAndRate,omitempty"`
}

// Timing is when to take something.
type Timing struct {
	Repeat Repeat `json:"repeat"`
}

// Repeat is a rule such as twice per day for 30 days.
type Repeat struct {
	BoundsDuration Quantity `json:"boundsDuration,omitzero"`
	Frequency      int      `json:"frequency,omitempty"`
	Period         int      `json:"period,omitempty"`
	PeriodUnit     string   `json:"periodUnit,omitempty"`
	When           []string `json:"when,omitempty"`
}

// DoseAndRate is the amount of one dose.
type DoseAndRate struct {
	DoseQuantity Quantity `json:"doseQuantity,omitzero"`
	DoseRange    Range    `json:"doseRange,omitzero"`
}

// Format prints type and ID only.
func (p Patient) Format(f fmt.State, _ rune) { redact.Format(f, "fhir.Patient", p.ID) }

// LogValue logs type and ID only.
func (p Patient) LogValue() slog.Value { return redact.LogValue("fhir.Patient", p.ID) }

// Format prints the type only.
func (n HumanName) Format(f fmt.State, _ rune) { redact.Format(f, "fhir.HumanName", "") }

// LogValue logs the type only.
func (n HumanName) LogValue() slog.Value { return redact.LogValue("fhir.HumanName", "") }

// Format prints the type only.
func (c ContactPoint) Format(f fmt.State, _ rune) { redact.Format(f, "fhir.ContactPoint", "") }

// LogValue logs the type only.
func (c ContactPoint) LogValue() slog.Value { return redact.LogValue("fhir.ContactPoint", "") }

// Format prints the type only, because the value may be a social security number.
func (i Identifier) Format(f fmt.State, _ rune) { redact.Format(f, "fhir.Identifier", "") }

// LogValue logs the type only.
func (i Identifier) LogValue() slog.Value { return redact.LogValue("fhir.Identifier", "") }

// Format prints type and ID only.
func (r MedicationRequest) Format(f fmt.State, _ rune) {
	redact.Format(f, "fhir.MedicationRequest", r.ID)
}

// LogValue logs type and ID only.
func (r MedicationRequest) LogValue() slog.Value {
	return redact.LogValue("fhir.MedicationRequest", r.ID)
}

// Format prints the type only, because the note may be a clinician's.
func (a Annotation) Format(f fmt.State, _ rune) { redact.Format(f, "fhir.Annotation", "") }

// LogValue logs the type only.
func (a Annotation) LogValue() slog.Value { return redact.LogValue("fhir.Annotation", "") }

// Format prints the type only.
func (d Dosage) Format(f fmt.State, _ rune) { redact.Format(f, "fhir.Dosage", "") }

// LogValue logs the type only.
func (d Dosage) LogValue() slog.Value { return redact.LogValue("fhir.Dosage", "") }
