package dispensarytest

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
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
			for p := range table.All(w.Patients) {
				reserved(p.Email)
				if p.MobileNumber != "" {
					assert.Regexp(t, phone, p.MobileNumber)
				}
			}
			for p := range table.All(w.Practitioners) {
				reserved(p.Email)
			}
			for m := range table.All(w.Staff) {
				reserved(m.Email)
			}
			for u := range table.All(w.Users) {
				reserved(u.Email)
				assert.NotEmpty(t, u.Password)
			}
			assert.Contains(t, table.At(w.Clinics, 0).DispensaryURL, ".example/")
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
		for p := range table.All(w.Products) {
			inTable(t, w.Brands, p.BrandID)
			inTable(t, w.SupplementTypes, p.SupplementTypeID)
			for i, id := range p.VariantIDs {
				v := inTable(t, w.Variants, id)
				assert.Equal(t, p.ID, v.ProductID)
				assert.Equal(t, i == 0, v.Primary)
				assert.False(t, seen[v.SKU], "SKUs are unique: %s", v.SKU)
				seen[v.SKU] = true
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
		for p := range table.All(w.Practitioners) {
			inTable(t, w.PractitionerTypes, p.TypeID)
			inTable(t, w.Users, p.ID)
		}
		for p := range table.All(w.Plans) {
			_, ours := w.PatientOf(p.ClinicID, p.PatientID)
			assert.True(t, ours)
			_, ours = w.PractitionerOf(p.ClinicID, p.PractitionerID)
			assert.True(t, ours)
			for _, r := range p.Recommendations {
				assert.Equal(t, model.VariantAvailable, inTable(t, w.Variants, r.VariantID).Status)
			}
		}
		for o := range table.All(w.Orders) {
			_, ours := w.PatientOf(o.ClinicID, o.PatientID)
			assert.True(t, ours)
			inTable(t, w.Plans, o.PlanIDs[0])
		}
		for b := range table.All(w.Brands) {
			assert.False(t, seen[b.Prefix], "prefixes are unique")
			seen[b.Prefix] = true
		}
	}
}

// inTable returns the row of an id, which must exist.
func inTable[T any](t *testing.T, rows table.Table[*T], id string) *T {
	t.Helper()
	row, known := rows.Rows[id]
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
	for b := range table.All(fake.store.World.Brands) {
		brands = append(brands, *b)
	}
	return brands
}
