package treatmentplans_test

import (
	"net/http"
	"testing"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// unknown is an id that nothing has.
const unknown = "00000000-0000-4000-8000-000000000000"

// bench is a platform, and its treatment plans as the first practitioner sees
// them.
type bench struct {
	treatmentplans.Service
	*dispensarytest.Server
	sent *resourcetest.LastBody

	patient, practitioner, variant string
}

func start(t *testing.T, options ...dispensarytest.Option) *bench {
	t.Helper()
	platform := dispensarytest.New(t, options...)
	sent := &resourcetest.LastBody{Base: platform.HTTPClient().Transport}
	client := platform.Client(model.User{}, dispensary.WithHTTPClient(&http.Client{Transport: sent}))
	p := platform
	return &bench{
		Service: client.TreatmentPlans, Server: platform, sent: sent,
		patient: p.Patients.All()[3].ID, practitioner: p.Clinics.Practitioners()[0].ID, variant: p.Products.All()[0].VariantIDs[0],
	}
}
