package treatmentplans_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

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
		protocol, err := b.Protocols.Get(t.Context(), item.ID)
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
