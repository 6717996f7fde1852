package clinic_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

func TestStaff(t *testing.T) {
	t.Parallel()
	b := start(t)
	created, err := b.Staff.Create(t.Context(), clinic.NewStaffMember{Email: "desk@example.com", FirstName: "New", LastName: "Desk", Metadata: clinic.Metadata{ID: "ehr-5"}})
	require.NoError(t, err)
	assert.EqualExportedValues(t, clinic.StaffMember{
		ID: created.ID, Email: "desk@example.com", FirstName: "New", LastName: "Desk", Metadata: clinic.Metadata{ID: "ehr-5"},
	}, *created)

	listed := resourcetest.Walk(t, 1, func(p api.Paging) clinic.StaffListOptions { return clinic.StaffListOptions{Paging: p} },
		b.Staff.List, b.Staff.Pages, b.Staff.All)
	require.Len(t, listed, 2)
	assert.Equal(t, "Pettigrew", listed[0].LastName)
	assert.Equal(t, *created, listed[1])
	for _, member := range listed {
		got, err := b.Staff.Get(t.Context(), member.ID)
		require.NoError(t, err)
		assert.Equal(t, member, *got, "lists have the same fields as a single one")
	}
	b.Server.Journal().CheckNoUnexpected(t)
}
