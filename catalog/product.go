package catalog

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Product is a product that a practitioner can recommend, in one or more variants.
//
// Lists and searches return only ID, Name, Status, VariantCount, Brand and PrimaryVariant.
// [Products.Get] also returns DescriptionHTML, Variants, Dosage and CustomDosage.
// API section: "Product".
type Product struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Status       Status `json:"status"`
	VariantCount int    `json:"variant_count"`

	// Brand contains the ID, the name and the prefix.
	Brand BrandSummary `json:"brand"`

	// PrimaryVariant is the variant to display. It is nil in a single product.
	PrimaryVariant *Variant `json:"primary_variant"`

	// DescriptionHTML is HTML from the platform. Sanitize it before display.
	DescriptionHTML string `json:"description_html"`

	Variants []Variant `json:"variants"`

	// Dosage is the manufacturer's suggestion, or nil if there is none.
	Dosage *Dosage `json:"dosage"`

	// CustomDosage is the practitioner's own dosage, or nil if none is set. Assumption: only
	// [Products.Get] returns it, with the fields of Dosage. The API shows neither.
	CustomDosage *Dosage `json:"custom_dosage"`
}

// Dosage is the instruction for taking a product, in words or numbers as the catalog writes
// them: "1-2", "twice per day", "until symptoms resolve". Its fields also decode from the
// names in plans: amount, frequency and duration. Assumption: a custom dosage may have either
// name.
// API section: "Product" (dosage).
type Dosage struct {
	Amount         string `json:"recommended_amount" alias:"amount"`
	Frequency      string `json:"recommended_frequency" alias:"frequency"`
	Duration       string `json:"recommended_duration" alias:"duration"`
	Format         string `json:"format"`
	AdditionalInfo string `json:"additional_info"`
}

// Products calls the product endpoints. Get it from [Service].
type Products struct{ t *transport.Client }

// ForPractitioner is an option of [Products.Get]. It selects the custom dosage of the
// practitioner with this ID. An empty ID means the practitioner behind the token, if there is
// one, as without the option. Any other call with this option fails with an
// [*api.ArgumentError].
// API section: GET /catalog/products/<id> (practitioner_id).
func ForPractitioner(id string) api.RequestOption {
	return func(s *hidden.CallSettings) { s.PractitionerID = id }
}

// Get returns one product with its description, variants and dosages. An
// unknown ID matches [api.ErrNotFound]. See [ForPractitioner].
// API section: GET /catalog/products/<id>.
func (s Products) Get(ctx context.Context, id string, options ...api.RequestOption) (*Product, error) {
	return transport.One[Product](ctx, s.t, transport.Call{Operation: operation.ProductGet, Path: []string{id}, Options: options, ForPractitioner: true})
}

// List returns all products.
// API section: GET /catalog/products.
func (s Products) List(options ...api.RequestOption) *api.List[Product] {
	return transport.NewList[Product](s.t, transport.Call{Operation: operation.ProductList, Options: options})
}

// ProductSearchOptions are the conditions of a product search. Assumption: all conditions must
// match, and the zero value matches every product of the brands that the clinic may order. The
// API shows the parameters only.
// API section: GET /catalog/search/products.
type ProductSearchOptions struct {
	// Query is free text.
	Query string `url:"query,omitempty"`

	BrandID string `url:"brand_id,omitempty"`

	AllergenIDs                []string `url:"allergen_ids,omitempty,brackets"`
	IngredientIDs              []string `url:"ingredient_ids,omitempty,brackets"`
	SupplementTypeIDs          []string `url:"supplement_type_ids,omitempty,brackets"`
	ThirdPartyCertificationIDs []string `url:"third_party_certification_ids,omitempty,brackets"`
}

// Search returns the products that match o. It respects brand segmentation: it returns only
// brands that are available to the clinic.
// API section: GET /catalog/search/products.
func (s Products) Search(o ProductSearchOptions, options ...api.RequestOption) *api.List[Product] {
	return transport.NewList[Product](s.t, transport.Call{Operation: operation.ProductSearch, Query: o, Options: options})
}

// Similar returns the platform's curated similar products, the most popular first.
// API section: GET /catalog/products/<product_id>/similar.
func (s Products) Similar(productID string, options ...api.RequestOption) *api.List[Product] {
	return transport.NewList[Product](s.t, transport.Call{Operation: operation.ProductSimilar, Path: []string{productID}, Options: options})
}

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
