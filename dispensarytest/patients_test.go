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

func TestPatientIsCreatedReadAndUpdated(t *testing.T) {
	t.Parallel()
	b := start(t)
	made := b.send("POST", "/clinic/patients", someone()).object(201, "patient")
	assert.ElementsMatch(t, patientKeys, keysOf(made))
	assert.EqualValues(t, 17.5, made["total_discount"])
	assert.Equal(t, false, made["text_message_notification"])
	id := made["id"].(string)
	assert.Equal(t, made, b.get("/clinic/patients/"+id).ok(200, "patient"))

	changed := b.send("PATCH", "/clinic/patients/"+id, map[string]any{"last_name": "Other", "gender": nil}).object(200, "patient")
	assert.Equal(t, "Other", changed["last_name"])
	assert.Equal(t, "New", changed["first_name"], "omitted fields stay")
	assert.Nil(t, changed["gender"], "null clears")
	stored, _ := b.fake.Patients.Get(id)
	assert.False(t, stored.Welcomed)
	b.fake.Journal().CheckNoUnexpected(t)
}

func TestPatientListsAreShort(t *testing.T) {
	t.Parallel()
	b := start(t)
	list := b.get("/clinic/patients?page[size]=2&page[number]=2")
	assert.Equal(t, map[string]any{"current_page": 2.0, "next_page": 3.0, "prev_page": 1.0, "total_pages": 3.0, "total_count": 5.0}, list.ok(200, "meta"))
	first := list.ok(200, "patients").([]any)[0]
	assert.ElementsMatch(t, []string{"id", "first_name", "last_name", "email"}, keysOf(first))
	assert.Equal(t, []any{"Doe"}, b.get("/clinic/search/patients?query=JANE+example.org").column("patients", "last_name"))
	assert.Empty(t, b.get("/clinic/search/patients?query=nobody").column("patients", "id"))
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

func TestFreedEmailCanBeTaken(t *testing.T) {
	t.Parallel()
	b := start(t)
	jane := b.fake.Patients.All()[0]
	b.send("PATCH", "/clinic/patients/"+jane.ID, map[string]any{"email": "moved@example.org"}).ok(200)
	body := someone()
	body["email"] = jane.Email
	b.send("POST", "/clinic/patients", body).ok(201)
	b.send("PATCH", "/clinic/patients/"+jane.ID, map[string]any{"email": jane.Email}).refused(422, "taken")
}

func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, body := range []string{`{"email":`, `[]`, `null`, `"x"`, `{} {}`, `{}x`} {
		b.send("POST", "/clinic/patients", body).refused(400, `"status":400`)
	}
	b.send("POST", "/clinic/patients", "").refused(422, "can't be blank")
}

func TestMetadataFindsEveryKind(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.send("POST", "/clinic/patients", someone()).ok(201)
	kind := b.fake.Clinics.Practitioners()[0].TypeID
	b.send("POST", "/clinic/practitioners", map[string]any{"email": "p@example.org", "first_name": "P", "last_name": "Q", "practitioner_type_id": kind, "metadata": map[string]any{"id": "m-1"}}).ok(201)
	b.send("POST", "/clinic/staff", map[string]any{"email": "s@example.org", "first_name": "S", "last_name": "T", "metadata": map[string]any{"id": "m-1"}}).ok(201)
	found := b.get("/clinic/metadata?id=m-1")
	assert.Equal(t, []any{"patient", "practitioner", "staff"}, found.column("metadata", "type"))
	entry := b.get("/clinic/metadata?id=m-1&type=patient").ok(200, "metadata").([]any)[0]
	assert.ElementsMatch(t, patientKeys, keysOf(entry.(map[string]any)["data"]))
	b.get("/clinic/metadata").refused(422, "id can't be blank")
	b.get("/clinic/metadata?id=m-1&type=order").refused(422, "type must be one of")
	narrow := b.with("clinic:read")
	narrow.get("/clinic/metadata?id=m-1&type=patient").refused(403, "patients:read")
	assert.Len(t, narrow.get("/clinic/metadata?id=m-1").column("metadata", "id"), 2)
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
