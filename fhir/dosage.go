package fhir

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/dispensary-go/dispensary/treatmentplans"
)

// dosageOf returns the instruction, or nil if there is none. The fields are free text, so only the
// known texts become elements. "as needed" is a duration of the platform and does not allow the
// patient to skip a dose, so it stays text.
func dosageOf(d treatmentplans.Dosage) []Dosage {
	amount, format, frequency, duration := clean(d.Amount), clean(string(d.Format)), clean(string(d.Frequency)), clean(string(d.Duration))
	days := dayCount.FindStringSubmatch(duration)
	if days != nil && days[1] == duration { // a number without a unit
		duration += " days"
	}
	text := joined(". ", joined(", ", joined(" ", amount, format), frequency, duration), clean(d.AdditionalInfo))
	if text == "" {
		return nil
	}
	dosage := Dosage{Text: text, DoseAndRate: doseOf(amount, format)}
	if repeat, known := frequencies[treatmentplans.Frequency(frequency)]; known {
		repeat.Period, repeat.PeriodUnit = 1, "d"
		if days != nil {
			repeat.BoundsDuration = Quantity{Value: json.Number(days[1]), Unit: "days", System: "http://unitsofmeasure.org", Code: "d"}
		}
		dosage.Timing.Repeat = repeat
	}
	return []Dosage{dosage}
}

// dayCount matches a duration in days. A number alone means days too.
var dayCount = regexp.MustCompile(`^([1-9][0-9]{0,3})(?: days?)?$`)

var frequencies = map[treatmentplans.Frequency]Repeat{
	treatmentplans.FrequencyOncePerDay:       {Frequency: 1},
	treatmentplans.FrequencyTwicePerDay:      {Frequency: 2},
	treatmentplans.FrequencyThreeTimesPerDay: {Frequency: 3},
	treatmentplans.FrequencyFourTimesPerDay:  {Frequency: 4},
	treatmentplans.FrequencyEveryMorning:     {Frequency: 1, When: []string{"MORN"}},
	treatmentplans.FrequencyEveryNight:       {Frequency: 1, When: []string{"NIGHT"}},
}

// countable contains the formats whose units the patient counts. One powder or one liquid is no
// dose.
var countable = map[treatmentplans.Format]bool{
	treatmentplans.FormatCapsule: true, treatmentplans.FormatChewable: true, treatmentplans.FormatLozenge: true,
	treatmentplans.FormatPacket: true, treatmentplans.FormatPellet: true, treatmentplans.FormatDrops: true,
	treatmentplans.FormatStrip: true, treatmentplans.FormatSuppository: true, treatmentplans.FormatTablet: true,
}

// doseOf returns the dose of an amount such as "2", "1/2" or "1-2", or nil.
func doseOf(amount, format string) []DoseAndRate {
	from, to, isRange := strings.Cut(amount, "-")
	low, high := number(from), number(to)
	quantity := func(n *big.Rat) Quantity { return Quantity{Value: decimal(n), Unit: format} }
	switch {
	case low == nil, !countable[treatmentplans.Format(format)]:
	case !isRange:
		return []DoseAndRate{{DoseQuantity: quantity(low)}}
	case high != nil && low.Cmp(high) < 0:
		return []DoseAndRate{{DoseRange: Range{Low: quantity(low), High: quantity(high)}}}
	}
	return nil
}

var numeral = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,3}|/[1-9][0-9]?)?$`)

// number reads "2", "0.5" or "1/2". It returns nil for 0, and for 1/3, which is no decimal number.
func number(text string) *big.Rat {
	if text = strings.TrimSpace(text); !numeral.MatchString(text) {
		return nil
	}
	n, _ := new(big.Rat).SetString(text)
	if _, exact := n.FloatPrec(); !exact || n.Sign() == 0 {
		return nil
	}
	return n
}

// decimal writes an exact decimal number.
func decimal(n *big.Rat) json.Number {
	digits, _ := n.FloatPrec()
	return json.Number(n.FloatString(digits))
}

// joined joins the parts that are not empty.
func joined(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), separator)
}

// clean returns text as FHIR allows it in a string: without control characters, with simple spaces
// and without space around it.
func clean(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r):
			return -1
		case unicode.IsSpace(r) && r > ' ', r == '\ufeff': // JavaScript calls U+FEFF a space
			return ' '
		}
		return r
	}, text))
}
