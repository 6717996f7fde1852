package treatmentplans

import (
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/redact"
)

// Recommendation is one product of a plan with its dosage. Assumption: VariantID and
// UnitsToPurchase are required. The API does not list the required fields. It prints as its
// type and the variant's ID: see "Patient data" in package api.
// API section: "Treatment plan" (recommendations).
type Recommendation struct {
	VariantID string `json:"variant_id"`

	// Refill reports whether the patient should order again when the product runs out.
	Refill bool `json:"refill"`

	// UnitsToPurchase is the number of packages to buy.
	UnitsToPurchase int `json:"units_to_purchase"`

	Dosage Dosage `json:"dosage,omitzero"`

	// Unknown contains members that the platform has added since this release. [Service.Update]
	// writes them back, because it replaces all recommendations. They are not part of the JSON
	// of a Recommendation.
	Unknown UnknownMembers `json:"-" unknown:"keep"`
}

// Dosage is the instruction for taking a product. Every field is free text for the platform,
// and is sent and read unchanged. A Dosage also reads the names that events use:
// recommended_amount, recommended_frequency and recommended_duration. It prints as its type:
// see "Patient data" in package api.
type Dosage struct {
	// Amount is a number, a range or a fraction: "1", "1-2", "1/2".
	Amount string `json:"amount,omitempty" alias:"recommended_amount"`

	Frequency Frequency `json:"frequency,omitempty" alias:"recommended_frequency"`

	Duration Duration `json:"duration,omitempty" alias:"recommended_duration"`

	Format         Format `json:"format,omitempty"`
	AdditionalInfo string `json:"additional_info,omitempty"`

	// Unknown contains members that the platform has added, as in [Recommendation].
	Unknown UnknownMembers `json:"-" unknown:"keep"`
}

// DosageOf converts a dosage of the catalog for a recommendation. It returns the zero Dosage
// for nil. To prefer the practitioner's own dosage to the manufacturer's, write
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

// Frequency is the text for how often to take a product.
type Frequency string

// Observed frequencies (assumption: the API lists none).
const (
	FrequencyOncePerDay       Frequency = "once per day"
	FrequencyTwicePerDay      Frequency = "twice per day"
	FrequencyThreeTimesPerDay Frequency = "three times per day"
	FrequencyFourTimesPerDay  Frequency = "four times per day"
	FrequencyEveryMorning     Frequency = "every morning"
	FrequencyEveryNight       Frequency = "every night"
)

// Duration is the text for how long to take a product: a number of days, such as "30", or
// words.
type Duration string

// Observed durations (assumption: the API lists none).
const (
	DurationAsNeeded             Duration = "as needed"
	DurationUntilSymptomsResolve Duration = "until symptoms resolve"
	DurationOngoing              Duration = "ongoing"
)

// Format is the form of a product as text.
type Format string

// Observed formats (assumption: the API lists none).
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

// Format prints only the type and the variant's ID.
func (r Recommendation) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.Recommendation", r.VariantID)
}

// LogValue returns only the type and the variant's ID.
func (r Recommendation) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.Recommendation", r.VariantID)
}

// String returns the type only, because the additional information is free text and may
// concern the patient. A Format method would cover numeric verbs too, but a field has that
// name.
func (d Dosage) String() string { return "treatmentplans.Dosage()" }

// GoString returns the type only.
func (d Dosage) GoString() string { return d.String() }

// LogValue logs the type only.
func (d Dosage) LogValue() slog.Value { return redact.LogValue("treatmentplans.Dosage", "") }
