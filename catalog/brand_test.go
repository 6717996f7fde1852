package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

// wantBrand is what the client should return of a brand that the platform holds.
func wantBrand(b model.Brand) catalog.Brand {
	status := catalog.Unavailable
	if b.Available {
		status = catalog.Available
	}
	return catalog.Brand{ID: b.ID, Name: b.Name, Prefix: b.Prefix, Status: status}
}

func TestBrands(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	sellOut(t, platform, platform.Products.Brands()[1].ID)
	brands := resourcetest.Walk(t, 3, func(p api.Paging) catalog.BrandListOptions { return catalog.BrandListOptions{Paging: p} },
		s.Brands.List, s.Brands.Pages, s.Brands.All)
	var want []catalog.Brand
	for _, b := range platform.Products.Brands() {
		want = append(want, wantBrand(b))
	}
	assert.Equal(t, want, brands)
	checkGet(t, brands, s.Brands.Get, func(b catalog.Brand) string { return b.ID })
}

func TestBrandFilters(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	soldOut := platform.Products.Brands()[1]
	sellOut(t, platform, soldOut.ID)
	var restricted model.Brand
	for _, b := range platform.Products.Brands() {
		if b.Restricted {
			restricted = b
		}
	}
	all := len(platform.Products.Brands())
	for _, test := range []struct {
		name    string
		options catalog.BrandListOptions
		without []string
	}{
		{"none", catalog.BrandListOptions{}, nil},
		{"available", catalog.BrandListOptions{Available: true}, []string{soldOut.ID}},
		{"permitted", catalog.BrandListOptions{ClinicPermitted: true}, []string{restricted.ID}},
		{"both", catalog.BrandListOptions{Available: true, ClinicPermitted: true}, []string{soldOut.ID, restricted.ID}},
	} {
		page, err := s.Brands.List(t.Context(), test.options)
		require.NoError(t, err)
		assert.Len(t, page.Items, all-len(test.without), test.name)
		for _, b := range page.Items {
			assert.NotContains(t, test.without, b.ID, test.name)
		}
	}
	platform.Journal().CheckNoUnexpected(t)
}

// sellOut takes every variant of a brand out of stock.
func sellOut(t *testing.T, platform *dispensarytest.Server, brandID string) {
	t.Helper()
	for _, p := range platform.Products.All() {
		if p.BrandID != brandID {
			continue
		}
		for _, id := range p.VariantIDs {
			setStatus(t, platform, id, model.VariantUnavailable)
		}
	}
}

func setStatus(t *testing.T, platform *dispensarytest.Server, variantID, status string) {
	t.Helper()
	_, _, err := platform.Products.UpdateVariant(variantID, model.VariantChange{Status: &status})
	require.NoError(t, err)
}
