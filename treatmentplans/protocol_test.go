package treatmentplans_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

func TestProtocols(t *testing.T) {
	t.Parallel()
	b := start(t)
	own := func(p api.Paging) treatmentplans.ProtocolListOptions {
		return treatmentplans.ProtocolListOptions{OwnershipType: treatmentplans.AnyOwner, Paging: p}
	}
	listed := resourcetest.WalkOf(t, 2, b.practitioner, own, b.Service.Protocols.List, b.Service.Protocols.Pages, b.Service.Protocols.All)
	for _, protocol := range listed {
		single, err := b.Service.Protocols.Get(t.Context(), protocol.ID)
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
	page, err := b.Service.Protocols.List(t.Context(), b.practitioner, treatmentplans.ProtocolListOptions{})
	require.NoError(t, err)
	protocol, err := b.Service.Protocols.Get(t.Context(), page.Items[0].ID)
	require.NoError(t, err)
	assert.Equal(t, "Start two hours before bed.", protocol.PersonalMessage)
	for i, line := range protocol.Recommendations {
		variant, known := b.Products.Variant(line.VariantID)
		require.True(t, known)
		product, _ := b.Products.Get(variant.ProductID)
		assert.Equal(t, treatmentplans.ProtocolRecommendation{
			VariantID: variant.ID, Refill: i == 0, QuantityRecommended: i + 1, DosagePermutations: "with food",
			DosageAmount: product.Dosage.Amount, DosageFrequency: product.Dosage.Frequency,
			DosageDuration: product.Dosage.Duration, DosageFormat: product.Dosage.Format,
		}, line)
	}
}

func TestProtocolRecommendationKeepsItsDuration(t *testing.T) {
	t.Parallel()
	var line treatmentplans.ProtocolRecommendation
	require.NoError(t, json.Unmarshal([]byte(`{"dosage_duration":"30"}`), &line))
	assert.Equal(t, treatmentplans.ProtocolRecommendation{DosageDuration: "30"}, line)
}

// Templates are deprecated, and still there: they are protocols by another name.
func TestTemplates(t *testing.T) {
	t.Parallel()
	b := start(t)
	templates := b.Templates
	listed := resourcetest.WalkOf(t, 2, b.practitioner, func(p api.Paging) treatmentplans.TemplateListOptions {
		return treatmentplans.TemplateListOptions{Paging: p}
	}, templates.List, templates.Pages, templates.All)
	require.Len(t, listed, 3)
	for _, item := range listed {
		assert.Empty(t, item.Recommendations, "lists leave them out")
		template, err := templates.Get(t.Context(), item.ID)
		require.NoError(t, err)
		protocol, err := b.Service.Protocols.Get(t.Context(), item.ID)
		require.NoError(t, err)
		assert.Equal(t, item.Name, template.Name)
		assert.Equal(t, item.CurrentState, template.CurrentState)
		assert.Equal(t, b.practitioner, template.PractitionerID)
		assert.Equal(t, protocol.Practitioner.ID, template.PractitionerID)
		assert.Equal(t, protocol.PersonalMessage, template.PersonalMessage)
		assert.Equal(t, protocol.Recommendations, template.Recommendations)
	}
	b.Journal().CheckNoUnexpected(t)
}
