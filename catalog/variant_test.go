package catalog_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// wantVariant is what the client should return of a variant that the platform
// holds, where it stands in a product.
func wantVariant(v model.Variant) catalog.Variant {
	availability := "n/a"
	if v.Status == model.VariantAvailable {
		availability = "In Stock"
	}
	var units api.Decimal // null
	if v.Units > 0 {
		units = api.Decimal(strconv.Itoa(v.Units))
	}
	const images = "https://images.dispensary.example/variants/"
	return catalog.Variant{
		ID: v.ID, SKU: v.SKU, Units: units, UnitOfMeasure: v.UnitOfMeasure, UPC: v.UPC,
		MSRP: api.Decimal(v.MSRP.String()), SupplierSKU: v.SupplierSKU, Status: catalog.Status(v.Status),
		Availability: availability, Primary: v.Primary,
		ImageURLSmall: images + v.SKU + "/small.png", ImageURLMedium: images + v.SKU + "/medium.png",
		ImageURLLarge: images + v.SKU + "/large.png",
	}
}

func TestVariants(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	p := platform
	for _, product := range p.Products.All()[:5] {
		var brand model.Brand
		for _, b := range p.Products.Brands() {
			if b.ID == product.BrandID {
				brand = b
			}
		}
		for _, id := range product.VariantIDs {
			held, known := p.Products.Variant(id)
			require.True(t, known)
			want := wantVariant(held)
			want.Product = &catalog.VariantProduct{
				ID: product.ID, Name: product.Name, Brand: catalog.ProductBrand{ID: brand.ID, Name: brand.Name, Prefix: brand.Prefix},
			}
			got, err := s.Variants.Get(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, want, *got)
		}
	}
}
