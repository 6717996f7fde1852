package clinic_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

// wantPractitioner is what the client should return of a practitioner that the
// platform holds.
func wantPractitioner(held model.Practitioner) clinic.Practitioner {
	return clinic.Practitioner{
		ID: held.ID, FirstName: held.FirstName, LastName: held.LastName, Email: held.Email,
		PractitionerTypeID: held.TypeID, Metadata: clinic.Metadata{ID: held.MetadataID},
	}
}

func TestPractitioners(t *testing.T) {
	t.Parallel()
	b := start(t)
	listed := resourcetest.Walk(t, 1, func(p api.Paging) clinic.PractitionerListOptions { return clinic.PractitionerListOptions{Paging: p} },
		b.Practitioners.List, b.Practitioners.Pages, b.Practitioners.All)
	require.Len(t, listed, len(b.Server.Clinics.Practitioners()))
	for i, held := range b.Server.Clinics.Practitioners() {
		got, err := b.Practitioners.Get(t.Context(), held.ID)
		require.NoError(t, err)
		assert.EqualExportedValues(t, wantPractitioner(held), *got)
		assert.Equal(t, *got, listed[i], "lists have the same fields as a single one")
	}
}
