package fhir

import (
	"cmp"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// Chart is the chart of one patient in the EHR.
type Chart struct {
	// System is the URI before the names of the platform's identifiers and codes, such as
	// "https://ehr.example/dispensary/us-production". Use one for each environment, because
	// environments may use the same IDs. Never change it: the EHR finds its rows by it. It is
	// required.
	System string

	// PatientID is the platform's ID of the patient. Plans of other patients are rejected. It is
	// required.
	PatientID string

	// Subject is the EHR's record of the same patient. It is required.
	Subject Reference

	// Practitioners contains the EHR's records of practitioners by the platform's IDs. A
	// practitioner who is missing is referred to by an identifier.
	Practitioners map[string]Reference
}

// RefillNote is the text of the only note that [Chart.Requests] writes. It never changes.
const RefillNote = "Refill when the product runs out."

// Requests returns a row of the medication list for each recommendation of the plan, in order. A
// canceled plan has no recommendations, so the rows of a canceled or changed plan end only
// through [Chart.Ended].
//
// Variants contains the recommended variants by ID, as [catalog.Variants.Get] returns them.
// Keep them, because the platform responds with 404 once the product is removed. A missing variant
// is an error, because a medication without a name is of no use.
//
// The rows have no ID. Their identifier is made of the plan and the variant, and their
// groupIdentifier is the plan. If the EHR has a row with this identifier, set the elements of
// the returned row and keep the rest, including all notes but [RefillNote].
//
// The error is an [*api.ArgumentError], or [api.ArgumentErrors] for several, with the name of the
// plan's field, such as "recommendations[0].variant_id", or of the Chart's field.
func (c Chart) Requests(plan treatmentplans.Plan, variants map[string]*catalog.Variant) ([]MedicationRequest, error) {
	wrong := c.check(plan)
	var requests []MedicationRequest
	ids := c.identifiers(plan)
	for i, r := range plan.Recommendations {
		variant := variants[r.VariantID]
		if variant == nil || variant.ID != r.VariantID || variant.Product == nil || clean(variant.Product.Name) == "" {
			wrong.add(fmt.Sprintf("recommendations[%d].variant_id", i), "is not among the variants with its product")
			continue
		}
		request := MedicationRequest{
			ResourceType: "MedicationRequest", Identifier: ids[i : i+1 : i+1], GroupIdentifier: c.group(plan),
			Status: cmp.Or(statuses[plan.State], "unknown"), Intent: "plan", ReportedBoolean: true,
			Category:                  []CodeableConcept{{Coding: []Coding{{System: "http://terminology.hl7.org/CodeSystem/medicationrequest-category", Code: "community", Display: "Community"}}}},
			MedicationCodeableConcept: c.medication(variant), DosageInstruction: dosageOf(r.Dosage),
			Subject: c.Subject, Requester: c.requester(plan.Practitioner.ID),
		}
		if !plan.CreatedAt.IsZero() {
			request.AuthoredOn = plan.CreatedAt.UTC().Format(time.RFC3339)
		}
		if r.UnitsToPurchase > 0 {
			request.DispenseRequest.Quantity = quantityOf(variant, r.UnitsToPurchase)
		}
		if r.Refill { // their number is unknown, so it is not numberOfRepeatsAllowed
			request.Note = []Annotation{{Text: RefillNote}}
		}
		requests = append(requests, request)
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	return requests, nil
}

// Ended returns the IDs of the stored rows that the plan no longer contains, because it was
// canceled or changed. The EHR still shows them as active: set their status to "stopped".
//
// Stored may be the whole medication list of the patient. Ended ignores the rows of other plans
// and of the EHR itself, and the rows that have already ended.
//
// An active plan without recommendations is an [*api.ArgumentError] for "recommendations", because
// it is probably an incomplete copy, and would end all of its rows.
func (c Chart) Ended(plan treatmentplans.Plan, stored []MedicationRequest) ([]string, error) {
	wrong := c.check(plan)
	canceled := plan.State == treatmentplans.StateCanceled
	if len(plan.Recommendations) == 0 && !canceled && plan.State != treatmentplans.StateDraft {
		wrong.add("recommendations", "can't be blank")
	}
	kept := map[string]bool{}
	for _, id := range c.identifiers(plan) {
		kept[id.Value] = !canceled
	}
	var ended []string
	for i, row := range stored {
		if c.isOpen(row, plan) && slices.ContainsFunc(row.Identifier, func(id Identifier) bool { return id.System == c.System+"/recommendation" && !kept[id.Value] }) {
			wrong.require(fmt.Sprintf("stored[%d].id", i), row.ID)
			ended = append(ended, row.ID)
		}
	}
	if err := wrong.err(); err != nil {
		return nil, err
	}
	return ended, nil
}

// isOpen reports whether row is of the plan, and current in the EHR.
func (c Chart) isOpen(row MedicationRequest, plan treatmentplans.Plan) bool {
	want, group := c.group(plan), row.GroupIdentifier
	return group.System == want.System && group.Value == want.Value &&
		slices.Contains([]string{"active", "draft", "on-hold", "unknown"}, row.Status)
}

func (c Chart) check(plan treatmentplans.Plan) problems {
	var wrong problems
	if u, err := url.Parse(c.System); err != nil || !u.IsAbs() || strings.Contains(c.System, " ") {
		wrong.add("fhir.Chart.System", "must be an absolute URI")
	}
	if c.Subject.Reference == "" && c.Subject.Identifier.Value == "" {
		wrong.add("fhir.Chart.Subject", "can't be blank")
	}
	wrong.require("fhir.Chart.PatientID", c.PatientID)
	wrong.require("id", plan.ID)
	if plan.Patient.ID != c.PatientID {
		wrong.add("patient.id", "is not Chart.PatientID")
	}
	return wrong
}

func (c Chart) group(plan treatmentplans.Plan) Identifier {
	return Identifier{System: c.System + "/treatment-plan", Value: plan.ID}
}

// identifiers returns the identifier of each recommendation. The second recommendation of a
// variant has the suffix "#2".
func (c Chart) identifiers(plan treatmentplans.Plan) []Identifier {
	var ids []Identifier
	seen := map[string]int{}
	for _, r := range plan.Recommendations {
		value := plan.ID + "/" + r.VariantID
		if seen[r.VariantID]++; seen[r.VariantID] > 1 {
			value += "#" + strconv.Itoa(seen[r.VariantID])
		}
		ids = append(ids, Identifier{System: c.System + "/recommendation", Value: value})
	}
	return ids
}

// statuses contains the status of a row by the state of its plan. The package comment gives the
// reasons.
var statuses = map[treatmentplans.State]string{
	treatmentplans.StateDraft: "draft", treatmentplans.StateActive: "active", treatmentplans.StateCanceled: "stopped",
}

func (c Chart) requester(id string) Reference {
	known, ok := c.Practitioners[id]
	if ok || id == "" {
		return known
	}
	return Reference{Type: "Practitioner", Identifier: Identifier{System: c.System + "/practitioner", Value: id}}
}

// medication returns the name and the codes of a variant.
func (c Chart) medication(v *catalog.Variant) CodeableConcept {
	name := joined(" ", clean(v.Product.Brand.Name), clean(v.Product.Name))
	if one := quantityOf(v, 1); one.Unit != "package" {
		name += ", " + string(one.Value) + " " + one.Unit
	}
	m := CodeableConcept{Text: name, Coding: []Coding{{System: c.System + "/variant", Code: v.ID, Display: name}}}
	if isGTIN(v.UPC) {
		m.Coding = append(m.Coding, Coding{System: "https://www.gs1.org/gtin", Code: v.UPC})
	}
	return m
}

// quantityOf returns the contents of a number of packages, or the packages if their contents are
// unknown.
func quantityOf(v *catalog.Variant, packages int) Quantity {
	units, unit := v.Units.Rat(), clean(v.UnitOfMeasure)
	if units == nil || units.Sign() <= 0 || unit == "" {
		units, unit = big.NewRat(1, 1), "package"
	}
	return Quantity{Value: decimal(units.Mul(units, big.NewRat(int64(packages), 1))), Unit: unit}
}

// isGTIN reports whether code is a UPC, an EAN-13 or a GTIN-14. The platform's code may be any
// scannable code. Eight digits may be a UPC-E, whose digits mean something else as a GTIN.
func isGTIN(code string) bool {
	if n := len(code); n < 12 || n > 14 || strings.Trim(code, "0123456789") != "" || strings.Trim(code, "0") == "" {
		return false
	}
	sum := 0
	for i, r := range code {
		weight := 1 + 2*((len(code)-1-i)%2) // 1 for the last digit, then 3, 1, 3 …
		sum += weight * int(r-'0')
	}
	return sum%10 == 0
}
