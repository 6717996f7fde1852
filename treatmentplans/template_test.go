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
	options := treatmentplans.TemplateListOptions{Paging: api.Paging{PageSize: 2}}
	listed := resourcetest.Collect(t, templates.All(t.Context(), b.practitioner, options))
	require.Len(t, listed, 3)
	pages := resourcetest.Collect(t, templates.Pages(t.Context(), b.practitioner, options))
	require.Len(t, pages, 2)
	page, err := templates.List(t.Context(), b.practitioner, options)
	require.NoError(t, err)
	assert.Equal(t, listed[:2], page.Items)
	assert.Equal(t, pages[0], page)

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
	_, err = templates.Get(t.Context(), unknown)
	require.ErrorIs(t, err, api.ErrNotFound)
	b.Journal().Reset()
	_, err = templates.Get(t.Context(), "")
	resourcetest.RequireUnsent(t, b.Server, err, "templates.get", "id")
}
