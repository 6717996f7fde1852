package treatmentplans

import (
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/catalog"
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
	Unknown UnknownMembers `json:"-" unknown:"keep"`
}

// Dosage says how a product is to be taken. Every field is free text to the platform. Any
// text is sent and read unchanged. Events write recommended_amount, recommended_frequency and
// recommended_duration, which a Dosage reads too.
// It prints as its type: see "Patient data" in package api.
type Dosage struct {
	// Amount is a number, a range or a fraction: "1", "1-2", "1/2".
	Amount string `json:"amount,omitempty" alias:"recommended_amount"`

	Frequency Frequency `json:"frequency,omitempty" alias:"recommended_frequency"`

	Duration Duration `json:"duration,omitempty" alias:"recommended_duration"`

	Format         Format `json:"format,omitempty"`
	AdditionalInfo string `json:"additional_info,omitempty"`

	// Unknown is as in [Recommendation].
	Unknown UnknownMembers `json:"-" unknown:"keep"`
}

// DosageOf returns a dosage of the catalog for a recommendation. It returns the zero Dosage for
// nil. The practitioner's own dosage comes before the manufacturer's:
//
//	treatmentplans.DosageOf(cmp.Or(product.CustomDosage, product.Dosage))
func DosageOf(d *catalog.Dosage) Dosage {
	if d == nil {
		return Dosage{}
	}
	return Dosage{
		Amount: d.Amount, Frequency: Frequency(d.Frequency), Duration: Duration(d.Duration), Format: Format(d.Format), AdditionalInfo: d.AdditionalInfo,
	}
}

// Frequency is how often a product is to be taken, as text.
type Frequency string

// Frequencies that have been seen (an assumption: the API lists none).
const (
	FrequencyOncePerDay       Frequency = "once per day"
	FrequencyTwicePerDay      Frequency = "twice per day"
	FrequencyThreeTimesPerDay Frequency = "three times per day"
	FrequencyFourTimesPerDay  Frequency = "four times per day"
	FrequencyEveryMorning     Frequency = "every morning"
	FrequencyEveryNight       Frequency = "every night"
)

// Duration is how long a product is to be taken: a number of days, such as "30", or a text.
type Duration string

// Durations that have been seen (an assumption: the API lists none).
const (
	DurationAsNeeded             Duration = "as needed"
	DurationUntilSymptomsResolve Duration = "until symptoms resolve"
	DurationOngoing              Duration = "ongoing"
)

// Format is the form in which a product is taken, as text.
type Format string

// Formats that have been seen (an assumption: the API lists none).
const (
	FormatCapsule     Format = "capsule"
	FormatChewable    Format = "chewable"
	FormatGel         Format = "gel"
	FormatLiquid      Format = "liquid"
	FormatLozenge     Format = "lozenge"
	FormatPacket      Format = "packet"
	FormatPellet      Format = "pellet"
	FormatDrops       Format = "drops"
	FormatPowder      Format = "powder"
	FormatStrip       Format = "strip"
	FormatSuppository Format = "suppository"
	FormatTablet      Format = "tablet"
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
