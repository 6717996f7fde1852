package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

func TestProductSearch(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	found := resourcetest.Walk(t, 2, func(p api.Paging) catalog.ProductSearchOptions {
		return catalog.ProductSearchOptions{Query: "vitamin", Paging: p}
	},
		s.Products.Search, s.Products.SearchPages, s.Products.SearchAll)
	assert.Len(t, found, 3, "what has the word in its name, its brand or its SKU")
	for _, product := range found {
		held, known := platform.Products.Get(product.ID)
		require.True(t, known)
		want, variants := wantProduct(t, platform, held), variantsOf(t, platform, held)
		want.PrimaryVariant = &variants[0]
		assert.Equal(t, want, product)
	}
}

// Every condition narrows the search, several of one kind narrow it further, and
// the brands that a clinic may not order stay out in any case.
func TestProductSearchConditions(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	products := platform.Products.All()
	sample := products[0]
	require.GreaterOrEqual(t, len(sample.AllergenIDs), 2)
	for name, test := range map[string]struct {
		search catalog.ProductSearchOptions
		keeps  func(model.Product) bool
	}{
		"nothing":                    {catalog.ProductSearchOptions{}, func(model.Product) bool { return true }},
		"query":                      {catalog.ProductSearchOptions{Query: "MAGNESIUM powder"}, named("Calm Magnesium Powder")},
		"query that must be escaped": {catalog.ProductSearchOptions{Query: "Ginger & Peppermint"}, named("Ginger & Peppermint")},
		"brand":                      {catalog.ProductSearchOptions{BrandID: sample.BrandID}, func(p model.Product) bool { return p.BrandID == sample.BrandID }},
		"allergen":                   {catalog.ProductSearchOptions{AllergenIDs: sample.AllergenIDs[:1]}, hasAll(sample.AllergenIDs[:1], allergensOf)},
		"allergens": {catalog.ProductSearchOptions{AllergenIDs: sample.AllergenIDs[:2]},
			hasAll(sample.AllergenIDs[:2], allergensOf)},
		"ingredient": {catalog.ProductSearchOptions{IngredientIDs: products[1].IngredientIDs[:1]},
			hasAll(products[1].IngredientIDs[:1], func(p model.Product) []string { return p.IngredientIDs })},
		"supplement type": {catalog.ProductSearchOptions{SupplementTypeIDs: []string{sample.SupplementTypeID}},
			func(p model.Product) bool { return p.SupplementTypeID == sample.SupplementTypeID }},
		"certification": {catalog.ProductSearchOptions{ThirdPartyCertificationIDs: sample.CertificationIDs},
			hasAll(sample.CertificationIDs, func(p model.Product) []string { return p.CertificationIDs })},
		"two conditions": {catalog.ProductSearchOptions{BrandID: sample.BrandID, Query: "capsule"}, func(model.Product) bool { return false }},
	} {
		var want, got []string
		for _, p := range products {
			if test.keeps(p) && !strings.HasPrefix(p.Name, "Research Blend") {
				want = append(want, p.Name)
			}
		}
		for product, err := range s.Products.SearchAll(t.Context(), test.search) {
			require.NoError(t, err)
			got = append(got, product.Name)
		}
		assert.Equal(t, want, got, name)
		assert.Less(t, len(got), len(products), name)
	}
	platform.Journal().CheckNoUnexpected(t)
}

func named(name string) func(model.Product) bool {
	return func(p model.Product) bool { return p.Name == name }
}

func allergensOf(p model.Product) []string { return p.AllergenIDs }

func hasAll(ids []string, of func(model.Product) []string) func(model.Product) bool {
	return func(p model.Product) bool {
		return !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(of(p), id) })
	}
}

// Array filters are sent in bracket form, one value each.
func TestProductSearchSendsArraysInBrackets(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	_, err := s.Products.Search(t.Context(), catalog.ProductSearchOptions{IngredientIDs: []string{"a", "b"}, AllergenIDs: []string{"c"}})
	require.NoError(t, err)
	request := platform.Journal().CheckRequested(t, "products.search")
	for _, want := range []string{"ingredient_ids%5B%5D=a&ingredient_ids%5B%5D=b", "allergen_ids%5B%5D=c"} {
		assert.Contains(t, request.Query, want)
	}
	assert.NotContains(t, request.Query, "supplement_type_ids", "what is empty is left out")
}
