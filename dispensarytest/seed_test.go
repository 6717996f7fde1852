package dispensarytest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// No person in the world can be a real one: addresses are of reserved domains, numbers
// are 555-01xx, and sites are .example.
func TestTheWorldIsMadeUp(t *testing.T) {
	t.Parallel()
	phone := regexp.MustCompile(`^\+1\d{3}55501\d\d$`)
	for _, region := range []model.Region{model.UnitedStates, model.Canada} {
		for seed := range uint64(3) {
			w := store.BuildWorld(seed, region, false)
			reserved := func(email string) {
				assert.Regexp(t, `@([a-z.-]+\.)?example\.(com|org)$`, email)
			}
			for p := range w.Patients.All() {
				reserved(p.Email)
				if p.MobileNumber != "" {
					assert.Regexp(t, phone, p.MobileNumber)
				}
			}
			for p := range w.Practitioners.All() {
				reserved(p.Email)
			}
			for m := range w.Staff.All() {
				reserved(m.Email)
			}
			for u := range w.Users.All() {
				reserved(u.Email)
				assert.NotEmpty(t, u.Password)
			}
			assert.Contains(t, w.Clinics.At(0).DispensaryURL, ".example/")
		}
	}
}

// The same seed makes the same world, byte for byte; another seed other ids, and
// another region other ids, people and secrets.
func TestWorldsFollowFromTheirSeed(t *testing.T) {
	t.Parallel()
	assert.Equal(t, bytesOf(store.BuildWorld(7, model.UnitedStates, false)), bytesOf(store.BuildWorld(7, model.UnitedStates, false)))
	assert.NotEqual(t, bytesOf(store.BuildWorld(7, model.UnitedStates, false)), bytesOf(store.BuildWorld(8, model.UnitedStates, false)))
	assert.NotEqual(t, bytesOf(store.BuildWorld(7, model.UnitedStates, false)), bytesOf(store.BuildWorld(7, model.Canada, false)))
	one, two := New(t, WithInMemory(), WithSeed(7)), New(t, WithInMemory(), WithSeed(7))
	assert.Equal(t, one.Application(), two.Application())
	assert.Equal(t, one.ClinicKeys(), two.ClinicKeys())
	assert.Equal(t, one.Users(), two.Users())
	assert.NotEqual(t, one.Tokens.Issue(model.User{}).AccessToken, two.Tokens.Issue(model.User{}).AccessToken, "a token is good on one platform alone")
	made, _, err := one.Patients.Register(model.NewPatient{})
	require.NoError(t, err)
	same, _, err := two.Patients.Register(model.NewPatient{})
	require.NoError(t, err)
	assert.Equal(t, made, same, "what happens later has the same ids, too")
}

// Everything in the world that names something else names something that is there.
func TestTheWorldIsWhole(t *testing.T) {
	t.Parallel()
	for _, region := range []model.Region{model.UnitedStates, model.Canada} {
		w := store.BuildWorld(store.DefaultSeed, region, false)
		has := func(known bool, what, id string) {
			assert.True(t, known, "%s %q", what, id)
		}
		seen := make(map[string]bool)
		for p := range w.Products.All() {
			_, known := w.Brands.Get(p.BrandID)
			has(known, "brand", p.BrandID)
			_, known = w.SupplementTypes.Get(p.SupplementTypeID)
			has(known, "supplement type", p.SupplementTypeID)
			for i, id := range p.VariantIDs {
				v, known := w.Variants.Get(id)
				has(known, "variant", id)
				assert.Equal(t, p.ID, v.ProductID)
				assert.Equal(t, i == 0, v.Primary)
				assert.False(t, seen[v.SKU], "SKUs are unique: %s", v.SKU)
				seen[v.SKU] = true
			}
			for _, id := range p.IngredientIDs {
				_, known := w.Ingredients.Get(id)
				has(known, "ingredient", id)
			}
			for _, id := range p.CategoryIDs {
				_, known := w.Categories.Get(id)
				has(known, "category", id)
			}
			assert.Contains(t, p.DescriptionHTML, p.Name)
		}
		for p := range w.Practitioners.All() {
			_, known := w.PractitionerTypes.Get(p.TypeID)
			has(known, "practitioner type", p.TypeID)
			_, known = w.Users.Get(p.ID)
			has(known, "account", p.ID)
		}
		for p := range w.Plans.All() {
			_, known := w.PatientOf(p.ClinicID, p.PatientID)
			has(known, "patient", p.PatientID)
			_, known = w.PractitionerOf(p.ClinicID, p.PractitionerID)
			has(known, "practitioner", p.PractitionerID)
			for _, r := range p.Recommendations {
				v, known := w.Variants.Get(r.VariantID)
				has(known && v.Status == model.VariantAvailable, "available variant", r.VariantID)
			}
		}
		for o := range w.Orders.All() {
			_, known := w.PatientOf(o.ClinicID, o.PatientID)
			has(known, "patient", o.PatientID)
			_, known = w.Plans.Get(o.PlanIDs[0])
			has(known, "plan", o.PlanIDs[0])
		}
		for b := range w.Brands.All() {
			assert.False(t, seen[b.Prefix], "prefixes are unique")
			seen[b.Prefix] = true
		}
	}
}

func TestIDsLookLikeIDs(t *testing.T) {
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
