package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

// wantProduct is what the client should return of a product that the platform holds,
// in the form that lists and single products have in common.
func wantProduct(t *testing.T, p *dispensarytest.Server, held model.Product) catalog.Product {
	t.Helper()
	want := catalog.Product{ID: held.ID, Name: held.Name, VariantCount: len(held.VariantIDs), Status: catalog.Unavailable}
	for _, b := range p.Products.Brands() {
		if b.ID == held.BrandID {
			want.Brand = catalog.ProductBrand{ID: b.ID, Name: b.Name, Prefix: b.Prefix}
		}
	}
	for _, v := range variantsOf(t, p, held) {
		switch {
		case v.Status == catalog.Available:
			want.Status = catalog.Available
		case v.Status == catalog.Backordered && want.Status == catalog.Unavailable:
			want.Status = catalog.Backordered
		}
	}
	return want
}

func variantsOf(t *testing.T, p *dispensarytest.Server, held model.Product) []catalog.Variant {
	t.Helper()
	var variants []catalog.Variant
	for _, id := range held.VariantIDs {
		v, known := p.Products.Variant(id)
		require.True(t, known)
		variants = append(variants, wantVariant(v))
	}
	return variants
}

func TestProducts(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	p := platform
	products := resourcetest.Walk(t, 20, func(p api.Paging) catalog.ProductListOptions { return catalog.ProductListOptions{Paging: p} },
		s.Products.List, s.Products.Pages, s.Products.All)
	require.Len(t, products, len(p.Products.All()))
	statuses := map[catalog.Status]bool{}
	for i, held := range p.Products.All() {
		want, variants := wantProduct(t, p, held), variantsOf(t, p, held)
		want.PrimaryVariant = &variants[0]
		assert.Equal(t, want, products[i], "in the list")
		statuses[products[i].Status] = true

		single, err := s.Products.Get(t.Context(), held.ID, catalog.ProductGetOptions{})
		require.NoError(t, err)
		want.PrimaryVariant, want.Variants, want.DescriptionHTML = nil, variants, held.DescriptionHTML
		want.Dosage, want.CustomDosage = wantDosage(held.Dosage), single.CustomDosage
		assert.Equal(t, want, *single, "alone")
	}
	assert.Len(t, statuses, 3, "the catalog has products of every status")
}

func wantDosage(d model.Dosage) *catalog.Dosage {
	return &catalog.Dosage{
		Amount: d.Amount, Frequency: d.Frequency, Duration: d.Duration,
		Format: d.Format, AdditionalInfo: d.AdditionalInfo,
	}
}

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

func TestSimilarProducts(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	id := platform.Products.All()[2].ID
	similar := resourcetest.WalkOf(t, 4, id, func(p api.Paging) catalog.ProductListOptions { return catalog.ProductListOptions{Paging: p} },
		s.Products.Similar, s.Products.SimilarPages, s.Products.SimilarAll)
	assert.Equal(t, "Adaptogen Balance", similar[0].Name, "the platform's order is kept: the nearest first")
	for _, product := range similar {
		assert.NotEqual(t, id, product.ID)
		assert.NotNil(t, product.PrimaryVariant)
		assert.Nil(t, product.Variants, "the form of lists")
	}
	for product, err := range s.Products.SimilarAll(t.Context(), unknown, catalog.ProductListOptions{}) {
		require.ErrorIs(t, err, api.ErrNotFound)
		assert.Zero(t, product)
	}
}

func TestDosageReadsNamesOfPlans(t *testing.T) {
	t.Parallel()
	want := catalog.Dosage{Amount: "2", Frequency: "every night", Duration: "9", Format: "capsule", AdditionalInfo: "with food"}
	for _, body := range []string{
		`{"recommended_amount":"2","recommended_frequency":"every night","recommended_duration":9,"format":"capsule","additional_info":"with food"}`,
		`{"amount":2,"frequency":"every night","duration":"9","format":"capsule","additional_info":"with food"}`,
		`{"amount":"1","recommended_amount":"2","recommended_frequency":"","frequency":"every night","duration":"9","recommended_duration":null,"format":"capsule","additional_info":"with food"}`,
	} {
		var got catalog.Product
		invalid, err := jsondecode.Unmarshal([]byte(`{"custom_dosage":`+body+`}`), &got)
		require.NoError(t, err)
		assert.Empty(t, invalid)
		assert.Equal(t, &want, got.CustomDosage, body)
	}
}
