package clinic_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for region, want := range map[model.Region]clinic.Address{
		model.UnitedStates: {Address1: "112 Example Street", Address2: "Unit 4", Zipcode: "97202", City: "Portland", State: "OR", Country: "United States"},
		model.Canada:       {Address1: "112 Example Street", Address2: "Unit 4", Zipcode: "K1A 0B2", City: "Ottawa", State: "ON", Country: "Canada"},
	} {
		b := start(t, dispensarytest.WithRegion(region))
		patients := b.Server.Patients.All()
		page, err := b.Addresses.List(t.Context(), patients[1].ID, clinic.AddressListOptions{})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		want.ID = page.Items[0].ID
		assert.EqualExportedValues(t, want, page.Items[0])
		assert.NotEmpty(t, want.ID)
		assert.EqualValues(t, 1, page.Meta.TotalCount)

		first := resourcetest.Collect(t, b.Addresses.All(t.Context(), patients[0].ID, clinic.AddressListOptions{}))
		require.Len(t, first, 1)
		assert.Empty(t, first[0].Address2, "null reads as empty")
		assert.NotEqual(t, want.ID, first[0].ID)
		b.Server.Journal().CheckNoUnexpected(t)
	}
}

// A page beyond the last is empty and no error; one at a time is the most that a
// patient of the fake allows.
func TestAddressPages(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.Server.Patients.All()[0].ID
	pages := func(p api.Paging) iter.Seq2[*api.Page[clinic.Address], error] {
		return b.Addresses.Pages(context.Background(), id, clinic.AddressListOptions{Paging: p})
	}
	assert.Len(t, resourcetest.Collect(t, pages(api.Paging{PageSize: 1})), 1)
	beyond := resourcetest.Collect(t, pages(api.Paging{Page: 2, PageSize: 1}))
	require.Len(t, beyond, 1)
	assert.Empty(t, beyond[0].Items)
	for _, err := range pages(api.Paging{PageSize: -1}) {
		var argument *api.ArgumentError
		require.ErrorAs(t, err, &argument)
		assert.Equal(t, "page[size]", argument.Field)
	}
}
