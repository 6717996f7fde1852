package treatmentplans_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

func TestProtocols(t *testing.T) {
	t.Parallel()
	b := start(t)
	own := func(p api.Paging) treatmentplans.ProtocolListOptions {
		return treatmentplans.ProtocolListOptions{OwnershipType: treatmentplans.AnyOwner, Paging: p}
	}
	listed := resourcetest.WalkOf(t, 2, b.practitioner, own, b.Protocols.List, b.Protocols.Pages, b.Protocols.All)
	for _, protocol := range listed {
		single, err := b.Protocols.Get(t.Context(), protocol.ID)
		require.NoError(t, err)
		assert.EqualExportedValues(t, treatmentplans.Protocol{
			ID: single.ID, Name: single.Name, CurrentState: single.CurrentState, OwnershipType: protocol.OwnershipType,
		}, protocol, "lists have no more fields than these")
		assert.Empty(t, single.OwnershipType, "only lists have it")
		assert.Equal(t, protocol.OwnershipType == treatmentplans.Owned, single.Practitioner.ID == b.practitioner)
		assert.Len(t, single.Recommendations, 2)
	}
}

func TestProtocolRecommendations(t *testing.T) {
	t.Parallel()
	b := start(t)
	page, err := b.Protocols.List(t.Context(), b.practitioner, treatmentplans.ProtocolListOptions{})
	require.NoError(t, err)
	protocol, err := b.Protocols.Get(t.Context(), page.Items[0].ID)
	require.NoError(t, err)
	assert.Equal(t, "Start two hours before bed.", protocol.PersonalMessage)
	for i, line := range protocol.Recommendations {
		variant, known := b.Products.Variant(line.VariantID)
		require.True(t, known)
		product, _ := b.Products.Get(variant.ProductID)
		assert.Equal(t, treatmentplans.ProtocolRecommendation{
			VariantID: variant.ID, Refill: i == 0, QuantityRecommended: api.Int(i + 1), DosagePermutations: "with food",
			DosageAmount: api.Text(product.Dosage.Amount), DosageFrequency: api.Text(product.Dosage.Frequency),
			DosageDuration: api.Text(product.Dosage.Duration), DosageFormat: api.Text(product.Dosage.Format),
		}, line)
	}
}

func TestProtocolFiltersAndSorts(t *testing.T) {
	t.Parallel()
	b := start(t)
	names := func(o treatmentplans.ProtocolListOptions) []string {
		return resourcetest.IDs(resourcetest.Collect(t, b.Protocols.All(t.Context(), b.practitioner, o)), func(p treatmentplans.Protocol) string { return p.Name })
	}
	for name, test := range map[string]struct {
		options treatmentplans.ProtocolListOptions
		want    []string
	}{
		"none":      {treatmentplans.ProtocolListOptions{}, []string{"Better Sleep", "Gut Reset", "Joint Comfort"}},
		"active":    {treatmentplans.ProtocolListOptions{CurrentState: treatmentplans.StateActive}, []string{"Better Sleep", "Gut Reset"}},
		"draft":     {treatmentplans.ProtocolListOptions{CurrentState: treatmentplans.StateDraft}, []string{"Joint Comfort"}},
		"cancelled": {treatmentplans.ProtocolListOptions{CurrentState: treatmentplans.StateCancelled}, []string{}},
		"shared":    {treatmentplans.ProtocolListOptions{OwnershipType: treatmentplans.Shared}, []string{"Winter Immunity"}},
		"by name":   {treatmentplans.ProtocolListOptions{SortBy: treatmentplans.ProtocolsByName, Order: api.Descending}, []string{"Joint Comfort", "Gut Reset", "Better Sleep"}},
		"by state":  {treatmentplans.ProtocolListOptions{SortBy: treatmentplans.ProtocolsByState, Order: api.Descending}, []string{"Joint Comfort", "Better Sleep", "Gut Reset"}},
	} {
		assert.Equal(t, test.want, names(test.options), name)
	}
	b.Journal().CheckNoUnexpected(t)
	_, err := b.Protocols.List(t.Context(), b.practitioner, treatmentplans.ProtocolListOptions{SortBy: "created_at"})
	require.ErrorIs(t, err, api.ErrInvalid)
}
