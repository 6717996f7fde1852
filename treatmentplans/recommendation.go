package treatmentplans

import (
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/internal/redact"
)

// Recommendation is one product of a plan and how to take it. The platform does
// not say which fields it requires; VariantID and UnitsToPurchase are assumed to
// be.
// It prints as its type and the variant's id: see "Patient data" in package api.
// API section: "Treatment plan" (recommendations).
type Recommendation struct {
	VariantID string `json:"variant_id"`

	// Refill says whether the patient is to order again when it runs out.
	Refill bool `json:"refill"`

	// UnitsToPurchase is how many packages to buy.
	UnitsToPurchase int `json:"units_to_purchase"`

	Dosage Dosage `json:"dosage,omitzero"`

	// Unknown has the members that the platform has added since this release.
	// [Service.Update] writes them back, because it replaces all recommendations. They are
	// not part of the JSON of a Recommendation.
	Unknown Members `json:"-" unknown:"keep"`
}

// Dosage says how a product is to be taken. Every field is free text to the
// platform: the constants below are the values that have been seen, and any other
// is sent and read unchanged. Events write recommended_amount, recommended_frequency and
// recommended_duration, which a Dosage reads too.
// It prints as its type: see "Patient data" in package api.
type Dosage struct {
	// Amount is a number, a range or a fraction: "1", "1-2", "1/2".
	Amount string `json:"amount,omitempty" alias:"recommended_amount"`

	Frequency string `json:"frequency,omitempty" alias:"recommended_frequency"`

	// Duration is a number of days or one of the constants.
	Duration string `json:"duration,omitempty" alias:"recommended_duration"`

	Format         string `json:"format,omitempty"`
	AdditionalInfo string `json:"additional_info,omitempty"`

	// Unknown is as in [Recommendation].
	Unknown Members `json:"-" unknown:"keep"`
}

// Frequencies that have been seen (an assumption: the API lists none).
const (
	FrequencyOncePerDay       = "once per day"
	FrequencyTwicePerDay      = "twice per day"
	FrequencyThreeTimesPerDay = "three times per day"
	FrequencyFourTimesPerDay  = "four times per day"
	FrequencyEveryMorning     = "every morning"
	FrequencyEveryNight       = "every night"
)

// Durations that have been seen (an assumption: the API lists none).
const (
	FrequencyAsNeeded            = "as needed"
	DurationUntilSymptomsResolve = "until symptoms resolve"
	DurationOngoing              = "ongoing"
)

// Formats that have been seen (an assumption: the API lists none).
const (
	FormatCapsule     = "capsule"
	FormatChewable    = "chewable"
	FormatGel         = "gel"
	FormatLiquid      = "liquid"
	FormatLozenge     = "lozenge"
	FormatPacket      = "packet"
	FormatPellet      = "pellet"
	FormatDrops       = "drops"
	FormatPowder      = "powder"
	FormatStrip       = "strip"
	FormatSuppository = "suppository"
	FormatTablet      = "tablet"
)

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
