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
	assert.JSONEq(t, `{"email":"desk@example.com","first_name":"New","last_name":"Desk","metadata":{"id":"ehr-5"}}`, b.sent.String())
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

// An update changes what it names, and nothing else.
func TestUpdateStaff(t *testing.T) {
	t.Parallel()
	b := start(t)
	want := resourcetest.Collect(t, b.Staff.All(t.Context(), clinic.StaffListOptions{}))[0]
	for _, test := range []struct {
		update clinic.StaffMemberUpdate
		body   string
		change func(*clinic.StaffMember)
	}{
		{clinic.StaffMemberUpdate{}, `{}`, func(*clinic.StaffMember) {}},
		{clinic.StaffMemberUpdate{Email: api.Value("changed@example.com")}, `{"email":"changed@example.com"}`,
			func(s *clinic.StaffMember) { s.Email = "changed@example.com" }},
		{clinic.StaffMemberUpdate{FirstName: api.Value("Changed")}, `{"first_name":"Changed"}`,
			func(s *clinic.StaffMember) { s.FirstName = "Changed" }},
		{clinic.StaffMemberUpdate{LastName: api.Value("Name"), Metadata: api.Value(clinic.Metadata{ID: "ehr-9"})},
			`{"last_name":"Name","metadata":{"id":"ehr-9"}}`,
			func(s *clinic.StaffMember) { s.LastName, s.Metadata.ID = "Name", "ehr-9" }},
	} {
		test.change(&want)
		updated, err := b.Staff.Update(t.Context(), want.ID, test.update)
		require.NoError(t, err)
		assert.JSONEq(t, test.body, b.sent.String())
		assert.EqualExportedValues(t, want, *updated, test.body)
		again, err := b.Staff.Get(t.Context(), want.ID)
		require.NoError(t, err)
		assert.EqualExportedValues(t, want, *again, "as the platform holds it")
	}
	b.Server.Journal().CheckNoUnexpected(t)
}
