package clinic_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

func TestAddressesDecodeInBothRegions(t *testing.T) {
	t.Parallel()
	for environment, want := range map[api.Environment]clinic.Address{
		api.USSandbox:     {Address1: "112 Example Street", Address2: "Unit 4", Zipcode: "97202", City: "Portland", State: "OR", Country: "United States"},
		api.CanadaSandbox: {Address1: "112 Example Street", Address2: "Unit 4", Zipcode: "K1A 0B2", City: "Ottawa", State: "ON", Country: "Canada"},
	} {
		platform := dispensarytest.New(t, dispensarytest.WithEnvironment(environment))
		addresses, patients := platform.Client(model.User{}).Clinic.Addresses, platform.Patients.All()
		page, err := addresses.ListForPatient(patients[1].ID).Page(t.Context())
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		want.ID = page.Items[0].ID
		assert.EqualExportedValues(t, want, page.Items[0])
		assert.NotEmpty(t, want.ID)
		assert.EqualValues(t, 1, page.Meta.TotalCount)

		first := resourcetest.Collect(t, addresses.ListForPatient(patients[0].ID).All(t.Context()))
		require.Len(t, first, 1)
		assert.Empty(t, first[0].Address2, "null must read as empty")
		assert.NotEqual(t, want.ID, first[0].ID)
		beyond := resourcetest.Collect(t, addresses.ListForPatient(patients[0].ID).StartAt(2).Pages(t.Context()))
		require.Len(t, beyond, 1, "a page beyond the last must not be an error")
		assert.Empty(t, beyond[0].Items)
		platform.Journal.CheckNoUnexpected(t)
	}
}
