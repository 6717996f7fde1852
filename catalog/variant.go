package catalog

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Variant is one size of a product. Plans and orders refer to variants, and each has a price.
// API section: "Variant".
type Variant struct {
	ID string `json:"id"`

	// SKU is the platform's own unique SKU.
	SKU string `json:"sku"`

	// Units is the amount in the variant, for example 90. UnitOfMeasure is its unit, for
	// example capsules. Both are empty if unknown.
	Units         api.Decimal `json:"units"`
	UnitOfMeasure string      `json:"unit_of_measure"`

	// UPC is the scannable code, a UPC or EAN-13. It is empty if unknown.
	UPC string `json:"upc"`

	// MSRP is the suggested selling price.
	MSRP api.Decimal `json:"msrp"`

	SupplierSKU string `json:"supplier_sku"`

	// Status is empty if unknown.
	Status Status `json:"status"`

	// Availability is a text for display, for example "In Stock" or "n/a".
	Availability string `json:"availability"`

	// Primary marks the variant to display for its product.
	Primary bool `json:"primary"`

	// The URLs of the images, thumbnail first.
	ImageURLSmall  string `json:"image_url_small"`
	ImageURLMedium string `json:"image_url_medium"`
	ImageURLLarge  string `json:"image_url_large"`

	// Product is nil unless [Variants.Get] returned the variant.
	Product *ProductSummary `json:"product"`
}

// ProductSummary is the product of a single variant.
type ProductSummary struct {
	ID    string       `json:"id"`
	Name  string       `json:"name"`
	Brand BrandSummary `json:"brand"`
}

// Variants calls the variant endpoint. Get it from [Service].
type Variants struct{ t *transport.Client }

// Get returns one variant with its product. An unknown ID matches [api.ErrNotFound].
// API section: GET /catalog/variants/<id>.
func (s Variants) Get(ctx context.Context, id string, options ...api.RequestOption) (*Variant, error) {
	return transport.One[Variant](ctx, s.t, transport.Call{Operation: operation.VariantGet, Path: []string{id}, Options: options})
}
