package dispensarytest

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/form"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// No person in the world can be real: email addresses use reserved domains, phone numbers are
// 555-01xx, and sites are .example.
func TestWorldContainsNoRealPeople(t *testing.T) {
	t.Parallel()
	phone := regexp.MustCompile(`^\+1\d{3}55501\d\d$`)
	for _, environment := range []api.Environment{api.USSandbox, api.CanadaSandbox} {
		for seed := range uint64(3) {
			w := store.BuildWorld(seed, environment)
			reserved := func(email string) {
				assert.Regexp(t, `@([a-z.-]+\.)?example\.(com|org)$`, email)
			}
			for _, p := range w.Patients.Rows {
				reserved(p.Email)
				if p.MobileNumber != "" {
					assert.Regexp(t, phone, p.MobileNumber)
				}
			}
			for _, p := range w.Practitioners.Rows {
				reserved(p.Email)
			}
			for _, m := range w.Staff.Rows {
				reserved(m.Email)
			}
			for _, u := range w.Users.Rows {
				reserved(u.Email)
				assert.NotEmpty(t, u.Password)
			}
			assert.Contains(t, w.Clinics.Rows[0].DispensaryURL, ".example/")
		}
	}
}

// The same seed gives the same world, byte for byte. Another seed gives other ids, and another
// region other ids, people and secrets.
func TestWorldFollowsFromSeed(t *testing.T) {
	t.Parallel()
	assert.NotEqual(t, bytesOf(store.BuildWorld(7, api.USSandbox)), bytesOf(store.BuildWorld(7, api.CanadaSandbox)))
	one, two := New(t, WithInMemory(), WithClock(frozen()), WithTuning(Tuning{Seed: 7})), New(t, WithInMemory(), WithClock(frozen()), WithTuning(Tuning{Seed: 7}))
	assert.Equal(t, one.Application(), two.Application())
	assert.Equal(t, one.ClinicKeys(), two.ClinicKeys())
	assert.Equal(t, one.Users(), two.Users())
	assert.NotEqual(t, one.Tokens.Issue(model.User{}).AccessToken, two.Tokens.Issue(model.User{}).AccessToken, "a token is valid on one platform only")
	made, _, err := one.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)
	same, _, err := two.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)
	assert.Equal(t, made, same, "later ids are the same, too")
}

// Every reference in the world leads to an existing object.
func TestWorldReferencesExist(t *testing.T) {
	t.Parallel()
	for _, environment := range []api.Environment{api.USSandbox, api.CanadaSandbox} {
		w := store.BuildWorld(store.DefaultSeed, environment)
		seen := make(map[string]bool)
		for _, p := range w.Products.Rows {
			inTable(t, w.Brands, p.BrandID)
			inTable(t, w.SupplementTypes, p.SupplementTypeID)
			for i, id := range p.VariantIDs {
				v := inTable(t, w.Variants, id)
				assert.Equal(t, p.ID, v.ProductID)
				assert.Equal(t, i == 0, v.Primary)
				assert.False(t, seen[v.SKU], "SKUs are unique: %s", v.SKU)
				seen[v.SKU] = true
				sum := 0
				for n, digit := range v.UPC {
					sum += int(digit-'0') * []int{3, 1}[n%2]
				}
				assert.Zero(t, sum%10, "check digit of %s", v.UPC)
				assert.Contains(t, []int{0, 12}, len(v.UPC))
			}
			for _, id := range p.IngredientIDs {
				inTable(t, w.Ingredients, id)
			}
			for _, id := range p.CategoryIDs {
				inTable(t, w.Categories, id)
			}
			if p.DescriptionHTML != "" {
				assert.Contains(t, p.DescriptionHTML, p.Name)
			}
		}
		for _, p := range w.Practitioners.Rows {
			inTable(t, w.PractitionerTypes, p.TypeID)
			inTable(t, w.Users, p.ID)
		}
		for _, p := range w.Plans.Rows {
			_, ours := w.PatientOf(p.ClinicID, p.PatientID)
			assert.True(t, ours)
			_, ours = w.PractitionerOf(p.ClinicID, p.PractitionerID)
			assert.True(t, ours)
			for _, r := range p.Recommendations {
				assert.Equal(t, model.VariantAvailable, inTable(t, w.Variants, r.VariantID).Status)
			}
		}
		for _, o := range w.Orders.Rows {
			_, ours := w.PatientOf(o.ClinicID, o.PatientID)
			assert.True(t, ours)
			inTable(t, w.Plans, o.PlanIDs[0])
		}
		for _, b := range w.Brands.Rows {
			assert.False(t, seen[b.Prefix], "prefixes are unique")
			seen[b.Prefix] = true
		}
	}
}

// inTable returns the row of an id, which must exist.
func inTable[T any](t *testing.T, rows table.Table[*T], id string) *T {
	t.Helper()
	row, known := table.Get(rows, id)
	require.True(t, known, "%T %q", row, id)
	return row
}

func TestIDsAreUniqueUUIDs(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for seed := range uint64(3) {
		for _, kind := range []string{"patient", "order"} {
			for n := range uint64(2000) {
				id := ids.Of(seed, kind, n)
				assert.Len(t, id, 36)
				assert.False(t, seen[id])
				seen[id] = true
			}
		}
	}
	assert.Equal(t, ids.Of(1, "patient", 2), ids.Of(1, "patient", 2))
	assert.NotEqual(t, ids.Secret(1, "a"), ids.Secret(1, "b"))
	assert.NotContains(t, strings.Join(New(t, WithInMemory()).ClinicKeys(), ""), " ")
}

func generated(seed uint64, size model.WorldSize) *store.World {
	w := store.BuildWorld(seed, api.USSandbox)
	w.Enlarge(size)
	return w
}

func TestSameSeedGivesSameWorld(t *testing.T) {
	t.Parallel()
	size := model.WorldSize{Clinics: 3, Patients: 300, Products: 200, Plans: 100, Orders: 500}
	one := generated(7, size)
	assert.Equal(t, bytesOf(one), bytesOf(generated(7, size)))
	assert.NotEqual(t, bytesOf(one), bytesOf(generated(8, size)))
	_, err := Start(WithTuning(Tuning{WorldSize: model.WorldSize{Orders: -1}}))
	require.Error(t, err)
}

func TestGeneratedWorldReferencesExist(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithTuning(Tuning{WorldSize: model.WorldSize{Clinics: 3, Patients: 300, Products: 200, Plans: 100, Orders: 500}}))
	assert.Len(t, b.fake.Clinics.All(), 3)
	assert.Len(t, b.fake.Patients.All(), 300)
	assert.Len(t, b.fake.Products.All(), 200)
	assert.Len(t, b.fake.Plans.All(), 100)
	assert.Len(t, b.fake.Orders.All(), 500)
	assert.Len(t, b.fake.ClinicKeys(), 3)
	clinics := map[string]bool{}
	for _, user := range b.fake.Users() {
		b.token = b.fake.Tokens.Issue(user).AccessToken
		clinic := b.get("/clinic").object(200, "clinic")
		clinics[clinic["id"].(string)] = true
		assert.InDelta(t, 100, clinic["patient_count"], 4)
		mine := b.get("/clinic/orders").object(200, "meta")["total_count"].(float64)
		assert.Greater(t, mine, 100.0)
	}
	assert.Len(t, clinics, 3)
	var before time.Time
	for _, o := range b.fake.Orders.All() {
		assert.False(t, o.CompletedAt.Before(before), "orders are in order of time")
		before = o.CompletedAt
	}
}

// A package that imports the fake compiles the methods of each table type again.
func TestTablesHaveNoMethods(t *testing.T) {
	t.Parallel()
	assert.Zero(t, reflect.TypeFor[*table.Table[*model.Patient]]().NumMethod())
}

// brandsOf returns the brands of a platform.
func brandsOf(fake *Server) (brands []store.Brand) {
	for _, b := range fake.store.World.Brands.Rows {
		brands = append(brands, *b)
	}
	return brands
}

const ownWorld = `{
	"clinics": [{"name": "Two Rivers", "discount": 12.5}, {"name": "Hill"}],
	"practitioners": [
		{"clinic": "Two Rivers", "first_name": "Ada", "last_name": "Stone", "email": "ada@ehr.example", "type": "MD", "password": "own", "metadata_id": "p-1"},
		{"clinic": "Hill", "first_name": "Ben", "last_name": "Moor", "email": "ben@ehr.example"}
	],
	"staff": [{"clinic": "Hill", "first_name": "Joan", "last_name": "Reed", "email": "desk@ehr.example"}],
	"patients": [
		{"clinic": "Two Rivers", "first_name": "Max", "last_name": "Test", "email": "max@example.org", "date_of_birth": "1984-03-12",
			"gender": "male", "mobile_number": "+15035550123", "discount": 5, "metadata_id": "ehr-1"},
		{"clinic": "Hill", "first_name": "Mia", "last_name": "Test", "email": "mia@example.org", "gender": null}
	],
	"products": [{"name": "Own Blend", "brand": "Own", "units": 90, "unit_of_measure": "tablets", "price": "12.30", "status": "backordered", "description": "<p>x</p>"}],
	"plans": [
		{"patient": "MAX@example.org", "practitioner": "ada@ehr.example", "personal_message": "Hello", "metadata_id": "plan-1",
			"products": [{"product": "Own Blend", "units": 2, "refill": true}, {"product": "Zinc Picolinate"}]},
		{"patient": "mia@example.org", "state": "draft", "products": [{"product": "Own Blend"}]},
		{"patient": "mia@example.org", "state": "cancelled"}
	]
}`

// worldOf writes a file and returns its path.
func worldOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "world.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestWorldFileExampleSetsAllFields(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory(), WithWorldFile(worldOf(t, WorldFileExample)))
	require.Len(t, fake.Plans.All(), 1)
	for _, field := range form.Patient(&fake.Patients.All()[0]) {
		assert.NotEmpty(t, *field.To, field.Name)
	}
}

func TestWorldFileReplacesDefaultWorld(t *testing.T) {
	t.Parallel()
	for _, environment := range []api.Environment{api.USSandbox, api.CanadaSandbox} {
		fake := New(t, WithInMemory(), WithWorldFile(worldOf(t, "\ufeff"+ownWorld)), WithEnvironment(environment), WithTuning(Tuning{Seed: 7}))
		clinics := fake.Clinics.All()
		require.Len(t, clinics, 2)
		assert.Equal(t, model.Clinic{ID: clinics[0].ID, Name: "Two Rivers", Discount: 12.5, DispensaryURL: clinics[0].DispensaryURL}, clinics[0])
		users := fake.Users()
		require.Len(t, users, 3)
		assert.Equal(t, model.User{ID: users[0].ID, Email: "ada@ehr.example", Password: "own", Type: model.UserPractitioner, Name: "Ada Stone", ClinicID: clinics[0].ID}, users[0])
		assert.Equal(t, "correct-horse-staff", users[2].Password)
		patients := fake.Patients.All()
		require.Len(t, patients, 2)
		assert.Equal(t, model.Patient{
			ID: patients[0].ID, ClinicID: clinics[0].ID, FirstName: "Max", LastName: "Test", Email: "max@example.org", DateOfBirth: "1984-03-12", Gender: "male",
			Discount: 5, MobileNumber: "+15035550123", MetadataID: "ehr-1", Welcomed: true,
		}, patients[0])
		plans := fake.Plans.All()
		require.Len(t, plans, 3)
		assert.Equal(t, []string{model.PlanStateActive, model.PlanStateDraft, model.PlanStateCanceled}, []string{plans[0].State, plans[1].State, plans[2].State})
		assert.Equal(t, users[0].ID, plans[0].PractitionerID)
		assert.Equal(t, users[1].ID, plans[1].PractitionerID, "the first of the clinic")
		assert.Equal(t, 2, plans[0].Recommendations[0].UnitsToPurchase)
		assert.True(t, plans[1].AvailableAt.IsZero())
		products := fake.Products.All()
		own := products[len(products)-1]
		assert.Equal(t, "Own Blend", own.Name)
		assert.Greater(t, len(products), 40, "the default catalog is present")

		// The platform works like any other, and a reset restores its world.
		fake.Tokens.Issue(model.User{})
		_, _, err := fake.Orders.Place(patients[0].ID, model.OrderCreate{PlanIDs: []string{plans[0].ID}})
		require.NoError(t, err)
		clinic, err := fake.Client(users[0]).Clinic.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, clinics[0].ID, clinic.ID)
		_, _, err = fake.Patients.Create(model.PatientCreate{})
		require.NoError(t, err)
		fake.Reset()
		assert.Equal(t, patients, fake.Patients.All())
	}
	small := `{"clinics": [{"name": "Two Rivers"}], "practitioners": [{"first_name": "Ada", "last_name": "Stone", "email": "ada@ehr.example"}]}`
	fake := New(t, WithInMemory(), WithWorldFile(worldOf(t, small)))
	_, _, err := fake.Patients.Create(model.PatientCreate{})
	require.NoError(t, err, "a clinic needs no patients")
}

func TestWorldFileReportsPaths(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown":          {`"discount": 12.5`, `"discuont": 12.5`, "clinics[0].discuont does not exist: did you mean discount?"},
		"unknown list":     {`"staff"`, `"staf"`, "staf does not exist: did you mean staff?"},
		"no name":          {`"first_name": "Ben"`, `"first_name": " "`, "practitioners[1].first_name can't be blank"},
		"type":             {`"type": "MD"`, `"type": "canary"`, "practitioners[0].type must be one of DC, DPT, LAc, MD, ND, NP, RD"},
		"not a text":       {`"last_name": "Reed"`, `"last_name": 5`, "staff[0].last_name must be a string"},
		"email":            {`"email": "mia@example.org"`, `"email": "canary"`, "patients[1].email is not an e-mail address"},
		"email taken":      {`"email": "mia@example.org"`, `"email": "Max@example.org"`, "patients[1].email has already been taken"},
		"user taken":       {`"email": "desk@ehr.example"`, `"email": "ben@ehr.example"`, "staff[0].email has already been taken"},
		"date":             {"1984-03-12", "canary", "patients[0].date_of_birth must be a date (yyyy-mm-dd)"},
		"gender":           {`"gender": "male"`, `"gender": "canary"`, "patients[0].gender must be one of male, female, x"},
		"number":           {"+15035550123", "canary", "patients[0].mobile_number must be in international form, a + and digits"},
		"percent":          {`"discount": 5`, `"discount": 500`, "patients[0].discount must be a number from 0 to 100"},
		"clinic":           {`"clinic": "Hill", "first_name": "Mia"`, `"clinic": "canary", "first_name": "Mia"`, "patients[1].clinic is not the name of a clinic in the file"},
		"which clinic":     {`"clinic": "Hill", "first_name": "Mia"`, `"first_name": "Mia"`, "patients[1].clinic can't be blank, as there are several clinics"},
		"clinic twice":     {`{"name": "Hill"}`, `{"name": "Hill"}, {"name": "Hill"}`, "clinics[2].name is the name of another clinic"},
		"no practitioner":  {`{"name": "Hill"}`, `{"name": "Hill"}, {"name": "Dale"}`, "clinics[2].name is not the clinic of a practitioner"},
		"price":            {`"12.30"`, `"12"`, "products[0].price is not an amount such as 19.99"},
		"units":            {`"units": 90`, `"units": 1.5`, "products[0].units must be a whole number above 0"},
		"status":           {"backordered", "canary", "products[0].status must be one of available, backordered, discontinued, unavailable, vendor backorder"},
		"plan's patient":   {"MAX@example.org", "canary@example.org", "plans[0].patient is not the e-mail address of a patient in the file"},
		"other clinic":     {`"practitioner": "ada@ehr.example"`, `"practitioner": "ben@ehr.example"`, "plans[0].practitioner works at another clinic than the patient's"},
		"plan's product":   {`"product": "Zinc Picolinate"`, `"product": "canary"`, "plans[0].products[1].product is not the name of a product in the catalog or the file"},
		"refill":           {`"refill": true`, `"refill": "canary"`, "plans[0].products[0].refill must be true or false"},
		"no products":      {`"state": "draft", "products": [{"product": "Own Blend"}]`, `"state": "draft"`, "plans[1].products can't be blank"},
		"not an object":    {`{"name": "Hill"}`, `{"name": "Hill"}, "canary"`, "clinics must be an array of objects"},
		"not a list":       {`[{"clinic": "Hill", "first_name": "Joan", "last_name": "Reed", "email": "desk@ehr.example"}]`, `{}`, "staff must be an array of objects"},
		"too long":         {`"plan-1"`, `"` + strings.Repeat("x", 256) + `"`, "plans[0].metadata_id is too long (maximum is 255 characters)"},
		"product repeated": {`"products": [{"name": "Own Blend",`, `"products": [{"name": "Own Blend"}, {"name": "Own Blend",`, "products[1].name is the name of another product in the file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, ownWorld, c.old)
			path := worldOf(t, strings.Replace(ownWorld, c.old, c.new, 1))
			_, err := Start(WithInMemory(), WithWorldFile(path))
			require.ErrorIs(t, err, api.ErrArgument)
			first, _, _ := strings.Cut(err.Error(), "\n")
			assert.Equal(t, "dispensary: dispensarytest.WithWorldFile is invalid: "+path+": "+c.want, first)
			assert.NotContains(t, err.Error(), "canary")
		})
	}
	for text, want := range map[string]string{
		"": "line 1: ", "{\n\"clinics\": canary}": "line 2: ", "[]": "must be a JSON object", "null": "must be a JSON object", "{}": "clinics can't be blank",
		`{"clinics": [{}], "patients": [{}]}`: "clinics[0].name can't be blank\npatients[0].first_name can't be blank\npatients[0].last_name can't be blank\npatients[0].email can't be blank\nclinics[0].name is not the clinic",
	} {
		_, err := Start(WithInMemory(), WithWorldFile(worldOf(t, text)))
		require.ErrorContains(t, err, want, text)
		assert.NotContains(t, err.Error(), "canary")
	}
	_, err := Start(WithWorldFile(filepath.Join(t.TempDir(), "none")))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Start(WithWorldFile(worldOf(t, ownWorld)), WithTuning(Tuning{WorldSize: model.WorldSize{Patients: 100}}))
	require.ErrorContains(t, err, "remove the size option")
}
