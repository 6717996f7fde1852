package catalog_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

// What products have of a kind is an id and a name, listed by name.
func TestWhatDescribesProducts(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	allergens := resourcetest.Walk(t, 4, func(p api.Paging) catalog.AllergenListOptions { return catalog.AllergenListOptions{Paging: p} },
		s.Allergens.List, s.Allergens.Pages, s.Allergens.All)
	assert.Equal(t, "Dairy Free", allergens[0].Name)
	checkGet(t, allergens, s.Allergens.Get, func(a catalog.Allergen) string { return a.ID })

	ingredients := resourcetest.Walk(t, 20, func(p api.Paging) catalog.IngredientListOptions { return catalog.IngredientListOptions{Paging: p} },
		s.Ingredients.List, s.Ingredients.Pages, s.Ingredients.All)
	assert.Equal(t, "Acetyl-L-Carnitine", ingredients[0].Name)
	checkGet(t, ingredients, s.Ingredients.Get, func(i catalog.Ingredient) string { return i.ID })

	types := resourcetest.Walk(t, 3, func(p api.Paging) catalog.SupplementTypeListOptions {
		return catalog.SupplementTypeListOptions{Paging: p}
	},
		s.SupplementTypes.List, s.SupplementTypes.Pages, s.SupplementTypes.All)
	assert.Equal(t, "Amino Acids", types[0].Name)
	checkGet(t, types, s.SupplementTypes.Get, func(k catalog.SupplementType) string { return k.ID })

	certifications := resourcetest.Walk(t, 3, func(p api.Paging) catalog.ThirdPartyCertificationListOptions {
		return catalog.ThirdPartyCertificationListOptions{Paging: p}
	}, s.ThirdPartyCertifications.List, s.ThirdPartyCertifications.Pages, s.ThirdPartyCertifications.All)
	assert.Equal(t, "Heavy Metal Tested", certifications[0].Name)
	checkGet(t, certifications, s.ThirdPartyCertifications.Get, func(c catalog.ThirdPartyCertification) string { return c.ID })
}

func TestPractitionerTypes(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	kinds := resourcetest.Walk(t, 3, func(p api.Paging) catalog.PractitionerTypeListOptions {
		return catalog.PractitionerTypeListOptions{Paging: p}
	}, s.PractitionerTypes.List, s.PractitionerTypes.Pages, s.PractitionerTypes.All)
	assert.Len(t, kinds, 7)
	meanings := map[string]string{}
	for _, kind := range kinds {
		meanings[kind.ID] = kind.Code + ": " + kind.Description
	}
	for _, practitioner := range platform.Clinics.Practitioners() {
		assert.Contains(t, meanings, practitioner.TypeID, "a practitioner's type is one of them")
	}
	assert.Contains(t, slices.Collect(maps.Values(meanings)), "ND: Naturopathic Doctor")
}
