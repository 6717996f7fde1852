package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var patientKeys = []string{
	"id", "first_name", "last_name", "email", "date_of_birth", "gender", "discount", "total_discount",
	"mobile_number", "text_message_notification", "metadata",
}

func someone() map[string]any {
	return map[string]any{
		"email": "new@example.org", "first_name": "New", "last_name": "Person", "date_of_birth": "1999-12-31", "gender": "x",
		"mobile_number": "+15035550199", "discount": 7.5, "send_welcome_email": false, "metadata": map[string]any{"id": "m-1"},
	}
}

func TestPatientIsRefused(t *testing.T) {
	t.Parallel()
	b := start(t)
	before := b.fake.Patients.All()
	for _, c := range []struct {
		field string
		value any
		says  string
	}{
		{"email", nil, "Email can't be blank"},
		{"email", "Jane.DOE@example.org", "Email has already been taken"},
		{"email", "no address", "Email is not an e-mail address"},
		{"email", 7, "Email must be a string"},
		{"first_name", "  ", "First name can't be blank"},
		{"last_name", []string{}, "Last name must be a string"},
		{"date_of_birth", "31/12/1999", "Date of birth must be a date"},
		{"gender", "female ", "Gender must be one of male, female, x"},
		{"mobile_number", "5035550199", "Mobile number must be in international form"},
		{"discount", "10", "Discount must be a number from 0 to 100"},
		{"discount", 101, "Discount must be a number from 0 to 100"},
		{"send_welcome_email", "maybe", "Send welcome email must be true or false"},
		{"metadata", "m-1", "Metadata must be an object"},
		{"metadata", map[string]any{"id": 5}, "Metadata.id must be a string"},
	} {
		body := someone()
		body[c.field] = c.value
		got := b.send("POST", "/clinic/patients", body)
		got.refused(422, c.says)
		assert.IsType(t, []any{}, got.body["error"])
	}
	all := b.send("POST", "/clinic/patients", map[string]any{})
	assert.Len(t, all.ok(422, "error"), 3, "all that is wrong is said at once")
	b.send("PATCH", "/clinic/patients/"+before[0].ID, map[string]any{"email": before[1].Email}).refused(422, "taken")
	b.send("PATCH", "/clinic/patients/"+before[0].ID, map[string]any{"email": nil}).refused(422, "can't be blank")
	b.send("PATCH", "/clinic/patients/nobody", map[string]any{}).refused(404, `{"status":404,"error":"Not Found"}`)
	assert.Equal(t, before, b.fake.Patients.All())
}

func TestUsersAreUniqueAndOfAKnownType(t *testing.T) {
	t.Parallel()
	b := start(t)
	p := b.fake.Clinics.Practitioners()[0]
	b.send("POST", "/clinic/staff", map[string]any{"email": p.Email, "first_name": "S", "last_name": "T"}).refused(422, "taken")
	b.send("PATCH", "/clinic/practitioners/"+p.ID, map[string]any{"practitioner_type_id": "zzz", "practitioner_id": p.ID}).refused(422, "Practitioner type must exist")
	got := b.send("PATCH", "/clinic/practitioners/"+p.ID, map[string]any{"last_name": "New", "practitioner_id": p.ID}).object(200, "practitioner")
	assert.Equal(t, "New", got["last_name"])
	assert.Equal(t, map[string]any{"id": nil}, got["metadata"])
	staff := b.get("/clinic/staff").column("staff", "id")
	require.Len(t, staff, 1)
	b.send("PATCH", "/clinic/staff/"+staff[0].(string), map[string]any{"first_name": "Jo"}).ok(200, "staff", "first_name")
	b.get("/clinic/patients/"+b.fake.Patients.All()[0].ID+"/addresses").ok(200, "addresses")
}
