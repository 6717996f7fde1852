package treatmentplans

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jsonscan"
	"github.com/dispensary-go/dispensary/internal/redact"
)

// Recommendation is one product of a plan and how to take it. The platform does
// not say which fields it requires; VariantID and UnitsToPurchase are assumed to
// be.
// API section: "Treatment plan" (recommendations).
type Recommendation struct {
	VariantID string `json:"variant_id"`

	// Refill says whether the patient is to order again when it runs out.
	Refill api.Bool `json:"refill"`

	// UnitsToPurchase is how many packages to buy.
	UnitsToPurchase api.Int `json:"units_to_purchase"`

	Dosage Dosage `json:"dosage,omitzero"`
}

// Dosage says how a product is to be taken. Every field is free text to the
// platform: the constants below are the values that have been seen, and any other
// is sent and read unchanged.
type Dosage struct {
	// Amount is a number, a range or a fraction: "1", "1-2", "1/2".
	Amount api.Text `json:"amount,omitempty"`

	Frequency api.Text `json:"frequency,omitempty"`

	// Duration is a number of days or one of the constants.
	Duration api.Text `json:"duration,omitempty"`

	Format         api.Text `json:"format,omitempty"`
	AdditionalInfo api.Text `json:"additional_info,omitempty"`
}

// Frequencies that have been seen (an assumption: the API lists none).
const (
	OncePerDay       api.Text = "once per day"
	TwicePerDay      api.Text = "twice per day"
	ThreeTimesPerDay api.Text = "three times per day"
	FourTimesPerDay  api.Text = "four times per day"
	EveryMorning     api.Text = "every morning"
	EveryNight       api.Text = "every night"
)

// Durations that have been seen (an assumption: the API lists none).
const (
	AsNeeded             api.Text = "as needed"
	UntilSymptomsResolve api.Text = "until symptoms resolve"
	Ongoing              api.Text = "ongoing"
)

// Formats that have been seen (an assumption: the API lists none).
const (
	Capsule     api.Text = "capsule"
	Chewable    api.Text = "chewable"
	Gel         api.Text = "gel"
	Liquid      api.Text = "liquid"
	Lozenge     api.Text = "lozenge"
	Packet      api.Text = "packet"
	Pellet      api.Text = "pellet"
	Drops       api.Text = "drops"
	Powder      api.Text = "powder"
	Strip       api.Text = "strip"
	Suppository api.Text = "suppository"
	Tablet      api.Text = "tablet"
)

// UnmarshalJSON reads both spellings: amount, frequency and duration as the
// endpoints write them, and with "recommended_" before them, as events do. Where
// both are there, the first counts.
func (d *Dosage) UnmarshalJSON(data []byte) error {
	var read, event Dosage
	s := jsonscan.Scanner{Data: data}
	if s.Next() != '{' {
		if bytes.Equal(data, []byte("null")) {
			return nil
		}
		return errDosage
	}
	if !s.Members(1, func(key []byte) bool {
		s.Next()
		start := s.Pos
		if !s.Value(1) {
			return false
		}
		field := read.field(&event, jsonscan.Unquote(key))
		return field == nil || field.UnmarshalJSON(s.Data[start:s.Pos]) == nil
	}) {
		return errDosage
	}
	read.Amount = cmp.Or(read.Amount, event.Amount)
	read.Frequency = cmp.Or(read.Frequency, event.Frequency)
	read.Duration = cmp.Or(read.Duration, event.Duration)
	*d = read
	return nil
}

var errDosage = errors.New("not a dosage")

// field returns where a member goes: to d, to event in the spelling of events, or
// nowhere.
func (d *Dosage) field(event *Dosage, name []byte) *api.Text {
	switch string(name) {
	case "amount":
		return &d.Amount
	case "frequency":
		return &d.Frequency
	case "duration":
		return &d.Duration
	case "format":
		return &d.Format
	case "additional_info":
		return &d.AdditionalInfo
	case "recommended_amount":
		return &event.Amount
	case "recommended_frequency":
		return &event.Frequency
	case "recommended_duration":
		return &event.Duration
	}
	return nil
}

// Format prints the type and the variant's id only.
func (r Recommendation) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.Recommendation", r.VariantID)
}

// LogValue logs the type and the variant's id only.
func (r Recommendation) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.Recommendation", r.VariantID)
}

// String returns the type only: the additional information is free text, and may
// be about the patient. A field takes the name of the method that would cover
// verbs made for numbers too.
func (d Dosage) String() string { return "treatmentplans.Dosage()" }

// GoString returns the type only.
func (d Dosage) GoString() string { return d.String() }

// LogValue logs the type only.
func (d Dosage) LogValue() slog.Value { return redact.LogValue("treatmentplans.Dosage", "") }
