package treatmentplans_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// unknown is an ID without a record.
const unknown = "00000000-0000-4000-8000-000000000000"

// bench is a fake platform, and its treatment plans for the first practitioner.
type bench struct {
	treatmentplans.Service
	*dispensarytest.Server

	patient, practitioner, variant string
}

func start(t *testing.T) *bench {
	t.Helper()
	platform := dispensarytest.New(t)
	return &bench{
		Service: platform.Client(model.User{}).TreatmentPlans, Server: platform, patient: platform.Patients.All()[3].ID,
		practitioner: platform.Practitioners.All()[0].ID, variant: platform.Products.All()[0].VariantIDs[0],
	}
}
