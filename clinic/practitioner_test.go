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

// heldPractitioner finds a practitioner on the platform.
func (b *bench) heldPractitioner(t *testing.T, id string) model.Practitioner {
	t.Helper()
	for _, held := range b.Server.Clinics.Practitioners() {
		if held.ID == id {
			return held
		}
	}
	t.Fatalf("the platform has no practitioner %s", id)
	panic("unreachable")
}

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

func TestCreatePractitioner(t *testing.T) {
	t.Parallel()
	b := start(t)
	kind := b.Server.Clinics.Practitioners()[0].TypeID
	created, err := b.Practitioners.Create(t.Context(), clinic.NewPractitioner{
		PractitionerTypeID: kind, Email: "doctor@example.com", FirstName: "New", LastName: "Doctor", Metadata: clinic.Metadata{ID: "ehr-3"},
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{"practitioner_type_id":"`+kind+`","email":"doctor@example.com","first_name":"New","last_name":"Doctor","metadata":{"id":"ehr-3"}}`, b.sent.String())
	assert.EqualExportedValues(t, wantPractitioner(b.heldPractitioner(t, created.ID)), *created)

	_, err = b.Practitioners.Create(t.Context(), clinic.NewPractitioner{PractitionerTypeID: kind, Email: "other@example.com", FirstName: "Other", LastName: "Doctor"})
	require.NoError(t, err)
	assert.NotContains(t, b.sent.String(), "metadata", "what is empty is left out")
	b.Server.Journal().CheckNoUnexpected(t)
}

// An update changes what it names, and nothing else.
func TestUpdatePractitioner(t *testing.T) {
	t.Parallel()
	b := start(t)
	first, other := b.Server.Clinics.Practitioners()[0], b.Server.Clinics.Practitioners()[1].TypeID
	for _, test := range []struct {
		update clinic.PractitionerUpdate
		body   string
		change func(*model.Practitioner)
	}{
		{clinic.PractitionerUpdate{}, `{}`, func(*model.Practitioner) {}},
		{clinic.PractitionerUpdate{PractitionerTypeID: api.Value(other)}, `{"practitioner_type_id":"` + other + `"}`,
			func(p *model.Practitioner) { p.TypeID = other }},
		{clinic.PractitionerUpdate{Email: api.Value("changed@example.com")}, `{"email":"changed@example.com"}`,
			func(p *model.Practitioner) { p.Email = "changed@example.com" }},
		{clinic.PractitionerUpdate{FirstName: api.Value("Changed"), LastName: api.Value("Name")}, `{"first_name":"Changed","last_name":"Name"}`,
			func(p *model.Practitioner) { p.FirstName, p.LastName = "Changed", "Name" }},
		{clinic.PractitionerUpdate{Metadata: api.Value(clinic.Metadata{ID: "ehr-9"})}, `{"metadata":{"id":"ehr-9"}}`,
			func(p *model.Practitioner) { p.MetadataID = "ehr-9" }},
	} {
		want := b.heldPractitioner(t, first.ID)
		test.change(&want)
		updated, err := b.Practitioners.Update(t.Context(), first.ID, test.update)
		require.NoError(t, err)
		assert.JSONEq(t, test.body, b.sent.String())
		assert.Equal(t, want, b.heldPractitioner(t, first.ID), test.body)
		assert.EqualExportedValues(t, wantPractitioner(want), *updated, test.body)
	}
	b.Server.Journal().CheckNoUnexpected(t)
}
