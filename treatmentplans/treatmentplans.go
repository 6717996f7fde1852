// Package treatmentplans creates, reads and changes treatment plans: a practitioner's
// recommendations to a patient. It also creates links to the platform's own pages for
// completing a plan.
//
//	plan, err := client.TreatmentPlans.Create(ctx, patientID, treatmentplans.PlanCreate{
//		PractitionerID:  practitionerID,
//		State:           treatmentplans.StateDraft,
//		Recommendations: []treatmentplans.Recommendation{{VariantID: variantID, UnitsToPurchase: 1}},
//	})
//	plan, err = client.TreatmentPlans.Activate(ctx, plan.ID)
//
// A new plan is a draft or active. Activation sends a draft to the patient. Cancellation
// empties the recommendations of an active plan. Protocols are reusable, read-only plans.
// [Protocol.NewPlan] returns a plan for a protocol.
//
// Plans are patient data. The types of this package print only their type and ID. See "Patient
// data" in package api for the exceptions.
//
// API sections: "Treatment plans", "Protocols and templates", "Dynamic links".
package treatmentplans

import "github.com/dispensary-go/dispensary/internal/transport"

// Service calls the treatment plan endpoints. Get it from the root client.
type Service struct {
	DynamicLinks DynamicLinks
	Protocols    Protocols

	// Templates is the former name of Protocols.
	//
	// Deprecated: use Protocols.
	Templates Templates

	t *transport.Client
}

// NewService returns the service. It is for this module only: t is internal.
func NewService(t *transport.Client) Service {
	return Service{
		DynamicLinks: DynamicLinks{t},
		Protocols:    Protocols{t},
		Templates:    Templates{t},
		t:            t,
	}
}
