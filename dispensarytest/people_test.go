package dispensarytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// role is a kind of person with its API names.
type role struct{ path, key string }

var roles = []role{{"/clinic/patients", "patient"}, {"/clinic/practitioners", "practitioner"}, {"/clinic/staff", "staff"}}

// person returns a body that creates a person in a role.
func (b *browser) person(r role, email string) map[string]any {
	body := map[string]any{"email": email, "first_name": "Any", "last_name": "One"}
	if r.key == "practitioner" {
		body["practitioner_type_id"] = b.fake.Practitioners.All()[0].TypeID
	}
	return body
}

// Email addresses of practitioners and staff are one set, and addresses of patients another.
// Case and surrounding blanks do not matter.
func TestEmailAddressesAreUnique(t *testing.T) {
	t.Parallel()
	for _, first := range roles {
		for _, second := range roles {
			b := start(t, WithInMemory())
			b.send("POST", first.path, b.person(first, "same@example.org")).ok(201)
			clash := (first.key == "patient") == (second.key == "patient")
			for _, email := range []string{"same@example.org", "SAME@Example.Org"} {
				got := b.send("POST", second.path, b.person(second, email))
				if !clash {
					got.ok(201)
					break // the next address would collide with this one
				}
				got.rejected(422, "Email has already been taken")
			}
			// The same rule applies to a change of the address.
			other := b.send("POST", second.path, b.person(second, "other@example.org")).ok(201, second.key, "id").(string)
			change := b.send("PATCH", second.path+"/"+other, map[string]any{"email": "Same@example.org"})
			change.rejected(422, "taken")
			b.send("PATCH", second.path+"/"+other, map[string]any{"email": "OTHER@example.org"}).ok(200)
		}
	}
}

func TestNamesAndAddressesAreRequired(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	for _, r := range roles {
		for field, label := range map[string]string{"email": "Email", "first_name": "First name", "last_name": "Last name"} {
			for _, value := range []any{nil, "", " \t", 5, true, map[string]any{}} {
				body := b.person(r, "x@example.org")
				body[field] = value
				b.send("POST", r.path, body).rejected(422, label+" ")
			}
			body := b.person(r, "x@example.org")
			delete(body, field)
			b.send("POST", r.path, body).rejected(422, label+" can't be blank")
		}
		for _, email := range []string{"x", "x@", "@example.org", "a b@example.org", "Any One <x@example.org>", "x@example.org, y@example.org"} {
			b.send("POST", r.path, b.person(r, email)).rejected(422, "Email is not an e-mail address")
		}
		all := b.send("POST", r.path, map[string]any{}).ok(422, "error")
		assert.GreaterOrEqual(t, len(all.([]any)), 3, "all errors are reported at once")
	}
	assert.Len(t, b.fake.Patients.All(), 5)
	assert.Len(t, b.fake.Practitioners.All(), 2)
}

// An update keeps the fields that were not sent. An empty update changes nothing.
func TestUpdatesChangeOnlySentFields(t *testing.T) {
	t.Parallel()
	for _, r := range roles {
		b := start(t, WithInMemory())
		body := b.person(r, "x@example.org")
		body["metadata"] = map[string]any{"id": "m-1"}
		made := b.send("POST", r.path, body).object(201, r.key)
		path := r.path + "/" + made["id"].(string)
		assert.Equal(t, made, b.send("PATCH", path, map[string]any{}).ok(200, r.key))
		assert.Equal(t, made, b.send("PATCH", path, nil).ok(200, r.key))
		for field, value := range map[string]any{"first_name": "New", "last_name": "Name", "email": "new@example.org"} {
			made[field] = value
			assert.Equal(t, made, b.send("PATCH", path, map[string]any{field: value}).ok(200, r.key))
			b.send("PATCH", path, map[string]any{field: ""}).rejected(422, "can't be blank")
		}
		made["metadata"] = map[string]any{"id": "m-2"}
		assert.Equal(t, made, b.send("PATCH", path, map[string]any{"metadata": map[string]any{"id": "m-2"}}).ok(200, r.key))
		assert.Equal(t, made, b.send("PATCH", path, map[string]any{"metadata": map[string]any{}}).ok(200, r.key), "an empty object changes nothing")
		made["metadata"] = map[string]any{"id": nil}
		assert.Equal(t, made, b.send("PATCH", path, map[string]any{"metadata": map[string]any{"id": nil}}).ok(200, r.key))
		assert.Equal(t, made, b.get(path).ok(200, r.key))
		b.fake.Journal.CheckNoUnexpected(t)
	}
}

func TestPatientFieldsRejectInvalidValues(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	path := "/clinic/patients/" + b.fake.Patients.All()[1].ID
	for field, values := range map[string][]any{
		"gender": {"male", "female", "x", nil}, "date_of_birth": {"2000-02-29", "1900-01-01", nil}, "mobile_number": {"+15035550100", "+4915112345678", nil},
		"discount": {0, 100, 12.5},
	} {
		for _, value := range values {
			got := b.send("PATCH", path, map[string]any{field: value}).ok(200, "patient", field)
			if value == nil {
				assert.Nil(t, got, field)
				continue
			}
			assert.EqualValues(t, fmt.Sprint(value), fmt.Sprint(got), field)
		}
	}
	for field, values := range map[string][]any{
		"gender": {"Male", "other", 1, true}, "date_of_birth": {"2001-02-29", "2001-2-9", "29-02-2000", 20000229}, "mobile_number": {"+1 503 555", "5035550100", "+", 15035550100},
		"discount": {-1, 100.5, "10", true}, "metadata": {"x", []any{}}, "email": {"x"},
	} {
		for _, value := range values {
			got := b.send("PATCH", path, map[string]any{field: value})
			got.rejected(422, label(field))
			assert.Len(t, got.body["error"], 1)
		}
	}
}

func TestDiscountsAddUp(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	clinic := b.get("/clinic").ok(200, "clinic", "discount").(float64)
	path := "/clinic/patients/" + b.fake.Patients.All()[0].ID
	for discount, total := range map[float64]float64{0: clinic, 5: clinic + 5, 90: 100, 95: 100, 100: 100} {
		patient := b.send("PATCH", path, map[string]any{"discount": discount}).object(200, "patient")
		assert.Equal(t, discount, patient["discount"], "without the clinic's")
		assert.Equal(t, total, patient["total_discount"])
	}
	order, _, err := b.fake.Orders.Place(b.fake.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(t, err)
	b.send("PATCH", path, map[string]any{"discount": 90}).ok(200)
	free, _, err := b.fake.Orders.Place(b.fake.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(t, err)
	assert.Zero(t, free.ItemTotal)
	assert.Equal(t, store.Shipping, free.PaymentTotal)
	assert.Equal(t, order.MSRPTotal, free.MSRPTotal)
}

// A user signs in with the new address after a change.
func TestAccountsFollowEmailChange(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	practitioner, staff := b.fake.Users()[0], b.fake.Users()[2]
	b.send("PATCH", "/clinic/practitioners/"+practitioner.ID, map[string]any{"email": "new.practitioner@example.org"}).ok(200)
	b.send("PATCH", "/clinic/staff/"+staff.ID, map[string]any{"email": "new.staff@example.org"}).ok(200)
	for _, email := range []string{"new.practitioner@example.org", "new.staff@example.org"} {
		b.exchange(b.code(model.User{Email: email})).ok(200)
	}
	assert.Panics(t, func() { b.fake.Browser(model.User{Email: practitioner.Email}) })
}

func TestMetadataLookupUsesTypeAndClinic(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	patient := b.fake.Patients.All()[0]
	plan := b.send("POST", b.plansOf(patient.ID), b.draft(map[string]any{"metadata": map[string]any{"id": patient.MetadataID}})).ok(201, "treatment_plan")
	both := b.get("/clinic/metadata?id=" + patient.MetadataID)
	assert.Equal(t, []any{"patient", "treatment_plan"}, both.column("metadata", "type"))
	assert.Equal(t, plan, both.ok(200, "metadata").([]any)[1].(map[string]any)["data"], "the whole object")
	for kind, n := range map[string]int{"patient": 1, "treatment_plan": 1, "practitioner": 0, "staff": 0} {
		assert.Len(t, b.get("/clinic/metadata?type="+kind+"&id="+patient.MetadataID).column("metadata", "id"), n, kind)
	}
	assert.Empty(t, b.get("/clinic/metadata?id="+strings.ToUpper(patient.MetadataID)).column("metadata", "id"), "the lookup respects case")
	second := b.get("/clinic/metadata?page[size]=1&page[number]=2&id=" + patient.MetadataID)
	assert.Equal(t, []any{"treatment_plan"}, second.column("metadata", "type"))
	for _, r := range roles[1:] {
		b.send("POST", r.path, merged(b.person(r, r.key+"@example.org"), "metadata", map[string]any{"id": patient.MetadataID})).ok(201)
	}
	narrow := b.with("clinic:read")
	assert.Equal(t, []any{"practitioner", "staff"}, narrow.get("/clinic/metadata?id="+patient.MetadataID).column("metadata", "type"), "only types within the token's scopes")
	narrow.get("/clinic/metadata?id=x&type=patient").rejected(403, "patients:read")
	b.get("/clinic/metadata").rejected(422, "id can't be blank")
}

// A lookup may read a search index that lags behind. Only the lookup lags.
func TestMetadataLagHidesNewRecords(t *testing.T) {
	t.Parallel()
	for variant, lag := range map[behavior.Variant]time.Duration{behavior.MetadataLag5s: 5 * time.Second, behavior.MetadataLag1m: time.Minute} {
		b := start(t, WithInMemory(), WithClock(frozen()), WithBehavior(variant))
		known := b.fake.Patients.All()[0]
		assert.Len(t, b.get("/clinic/metadata?id="+known.MetadataID).column("metadata", "id"), 1, "a record of the initial world")
		var paths []string
		for _, r := range roles {
			made := b.send("POST", r.path, merged(b.person(r, r.key+"@example.org"), "metadata", map[string]any{"id": "m-1"})).object(201, r.key)
			paths = append(paths, r.path+"/"+made["id"].(string))
		}
		b.send("POST", b.plansOf(known.ID), b.draft(map[string]any{"metadata": map[string]any{"id": "m-1"}})).ok(201)
		b.get(paths[0]).ok(200)
		b.fake.Clock.Advance(lag - time.Millisecond)
		assert.Empty(t, b.get("/clinic/metadata?id=m-1").column("metadata", "id"))
		b.fake.Clock.Advance(time.Millisecond)
		assert.Equal(t, []any{"patient", "practitioner", "staff", "treatment_plan"}, b.get("/clinic/metadata?id=m-1").column("metadata", "type"))
		for _, path := range paths {
			b.send("PATCH", path, map[string]any{"first_name": "New"}).ok(200)
		}
		assert.Len(t, b.get("/clinic/metadata?id=m-1").column("metadata", "id"), 4, "an update hides nothing")
	}
}

func someone() map[string]any {
	return map[string]any{
		"email": "new@example.org", "first_name": "New", "last_name": "Person", "date_of_birth": "1999-12-31", "gender": "x",
		"mobile_number": "+15035550199", "discount": 7.5, "send_welcome_email": false, "metadata": map[string]any{"id": "m-1"},
	}
}

func TestPractitionerTypeMustExist(t *testing.T) {
	t.Parallel()
	b := start(t)
	p := b.fake.Practitioners.All()[0]
	b.send("PATCH", "/clinic/practitioners/"+p.ID, map[string]any{"practitioner_type_id": "zzz", "practitioner_id": p.ID}).rejected(422, "Practitioner type must exist")
}

// label returns the name of a field in messages.
func label(field string) string {
	words := strings.ReplaceAll(field, "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// A body is rejected if the platform could not store its text unchanged.
func TestBodiesMustBeUnicode(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	patient := func(name string) string {
		return `{"first_name":"` + name + `","last_name":"B","email":"a@example.org"}`
	}
	for _, name := range []string{"\xff", "A\xc3", "\xed\xa0\x80"} {
		b.send("POST", "/clinic/patients", patient(name)).rejected(400, "must be UTF-8")
		b.send("POST", "/oauth/token", `{"grant_type":"`+name+`"}`).rejected(400, "must be UTF-8")
	}
	for _, name := range []string{`\ud83d`, `\ude00`, `A\uD83DB`, `\ud83d\ud83d\ude00`, `\ude00\ud83d`, `\ud83d\n`, `\ud83d\u0041`, `\\\ud83d`} {
		b.send("POST", "/clinic/patients", patient(name)).rejected(400, "surrogate pair")
	}
	b.send("POST", "/clinic/patients", `{"\ud800":1}`).rejected(400, "surrogate pair")
	b.send("POST", "/clinic/patients", `{"first_name":"\ud8`).rejected(400, "must be a JSON object")
	got := b.send("POST", "/clinic/patients", patient(`\ud83d\ude00\u00e9\\ud83d`)).ok(201, "patient", "first_name")
	assert.Equal(t, `😀é\ud83d`, got)
}

func TestTextsRejectNULAndExcessLength(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	patient := "/clinic/patients/" + b.fake.Patients.All()[0].ID
	most := strings.Repeat("é", 255)
	for _, field := range []string{"first_name", "last_name", "email", "mobile_number", "gender", "date_of_birth"} {
		b.send("PATCH", patient, map[string]any{field: "a\x00b"}).rejected(422, label(field)+" must not contain a NUL character")
		b.send("PATCH", patient, map[string]any{field: most + "é"}).rejected(422, label(field)+" is too long (maximum is 255 characters)")
	}
	b.send("PATCH", patient, map[string]any{"metadata": map[string]any{"id": "\x00"}}).rejected(422, "NUL")
	b.send("PATCH", patient, map[string]any{"metadata": map[string]any{"id": most + "é"}}).rejected(422, "too long")
	assert.Equal(t, most, b.send("PATCH", patient, map[string]any{"first_name": most}).ok(200, "patient", "first_name"))

	plan := "/clinic/treatment_plans/" + b.fake.Plans.All()[0].ID
	send := func(message, info, amount string) response {
		return b.send("PATCH", plan, map[string]any{"personal_message": message, "recommendations": []any{map[string]any{
			"variant_id": b.fake.Products.All()[0].VariantIDs[0], "units_to_purchase": 1, "dosage": map[string]any{"amount": amount, "additional_info": info},
		}}})
	}
	long := strings.Repeat("x", 65_535)
	send(long, long, most).ok(200)
	send(long+"x", "", "").rejected(422, "Personal message is too long (maximum is 65535 characters)")
	send("\x00", "", "").rejected(422, "Personal message must not contain a NUL character")
	send("", long+"x", "").rejected(422, "dosage.additional info is too long")
	send("", "", most+"x").rejected(422, "dosage.amount is too long")
}

// The Kelvin sign becomes k in strings.ToLower and equals it in strings.EqualFold. The
// platform and the client still treat the two as different addresses.
func TestKelvinSignIsAnotherAddress(t *testing.T) {
	t.Parallel()
	const kim, kelvin = "Kim@example.org", "\u212aim@example.org"
	b := start(t, WithInMemory())
	client := b.fake.Client(model.User{})
	create := func(email string) *clinic.Patient {
		p, err := client.Clinic.Patients.Create(t.Context(), clinic.PatientCreate{FirstName: "Kim", LastName: "Doe", Email: email})
		require.NoError(t, err)
		return p
	}
	first, second := create(kim), create(kelvin)
	assert.NotEqual(t, first.ID, second.ID)
	taken := someone()
	taken["email"] = "kiM@example.org"
	b.send("POST", "/clinic/patients", taken).rejected(422, "already been taken")
	taken["email"] = "\u212aIM@example.org"
	b.send("POST", "/clinic/patients", taken).rejected(422, "already been taken")
}

func TestSignInFoldsOnlyASCII(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	page := b.open(b.authorizeURL(nil))
	users := b.fake.Users()
	at := slices.IndexFunc(users, func(u model.User) bool { return strings.Contains(u.Email, "s") })
	require.NotEqual(t, -1, at)
	user := users[at]
	long := strings.Replace(user.Email, "s", "\u017f", 1) // ſ equals s in strings.EqualFold
	assert.Contains(t, b.signIn(page, long, user.Password).text, "is wrong")
	assert.NotContains(t, b.signIn(page, strings.ToUpper(user.Email), user.Password).text, "is wrong")
}
