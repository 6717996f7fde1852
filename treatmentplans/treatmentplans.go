// Package treatmentplans creates and follows treatment plans: what a
// practitioner recommends to a patient. It also makes the links to the
// platform's own pages where a practitioner completes a plan.
//
// A plan is created as a draft or active. A draft is activated, which sends it
// to the patient; an active plan is canceled, which empties its recommendations.
// Protocols are reusable plans, and read-only: [Protocol.NewPlan] returns a plan for one.
//
//	plan, err := client.TreatmentPlans.Create(ctx, patientID, treatmentplans.PlanCreate{
//		PractitionerID:  practitionerID,
//		State:           treatmentplans.StateDraft,
//		Recommendations: []treatmentplans.Recommendation{{VariantID: variantID, UnitsToPurchase: 1}},
//	})
//	plan, err = client.TreatmentPlans.Activate(ctx, plan.ID)
//
// Plans are patient data. The types of this package print their type and id only; see
// "Patient data" in package api for the exceptions.
//
// API sections: "Treatment plans", "Protocols and templates", "Dynamic links".
package treatmentplans

import "github.com/dispensary-go/dispensary/internal/transport"

// Service calls the treatment plan endpoints. Get it from the root client.
type Service struct {
	DynamicLinks DynamicLinks
	Protocols    Protocols

	// Templates is what protocols were called before.
	//
	// Deprecated: use Protocols.
	Templates Templates

	t *transport.Client
}

// NewService returns the service. Only this module can call it: t is internal.
func NewService(t *transport.Client) Service {
	return Service{
		DynamicLinks: DynamicLinks{t},
		Protocols:    Protocols{t},
		Templates:    Templates{t},
		t:            t,
	}
}
