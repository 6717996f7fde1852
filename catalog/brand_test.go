package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
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
