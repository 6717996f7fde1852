package catalog

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/calloption"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Product is something a practitioner can recommend, in one or more variants.
//
// Lists and searches carry ID, Name, Status, VariantCount, Brand and
// PrimaryVariant. DescriptionHTML, Variants, Dosage and CustomDosage come only
// with [Products.Get].
// API section: "Product".
type Product struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Status       Status `json:"status"`
	VariantCount int    `json:"variant_count"`

	// Brand holds id, name and prefix.
	Brand BrandSummary `json:"brand"`

	// PrimaryVariant is the variant to display; nil in a single product.
	PrimaryVariant *Variant `json:"primary_variant"`

	// DescriptionHTML is HTML from the platform: sanitize it before display.
	DescriptionHTML string `json:"description_html"`

	Variants []Variant `json:"variants"`

	// Dosage is the manufacturer's suggestion; nil where there is none.
	Dosage *Dosage `json:"dosage"`

	// CustomDosage is what the practitioner prefers; nil where none is set. Assumption: it
	// comes with [Products.Get] only and has the fields of Dosage, because the API shows
	// neither.
	CustomDosage *Dosage `json:"custom_dosage"`
}

// Dosage says how a product is taken, in words or numbers as the catalog writes
// them: "1-2", "twice per day", "until symptoms resolve". It also reads the names that plans
// have for its fields: amount, frequency and duration. Assumption: a custom dosage may
// have either.
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

// ForPractitioner is an option of [Products.Get]: the product has the custom dosage of the
// practitioner with the id. An empty id means the practitioner behind the token, if there is
// one, as without the option. Any other call with a practitioner fails with an
// [*api.ArgumentError].
// API section: GET /catalog/products/<id> (practitioner_id).
func ForPractitioner(id string) api.RequestOption {
	return func(s *calloption.Settings) { s.PractitionerID = id }
}

// Get returns one product with its description, variants and dosages. An
// unknown id matches [api.ErrNotFound]. See [ForPractitioner].
// API section: GET /catalog/products/<id>.
func (s Products) Get(ctx context.Context, id string, options ...api.RequestOption) (*Product, error) {
	return transport.One[Product](ctx, s.t, transport.Call{Operation: operation.ProductGet, Path: []string{id}, Options: options, ForPractitioner: true})
}

// List returns all products.
// API section: GET /catalog/products.
func (s Products) List(options ...api.RequestOption) *api.List[Product] {
	return transport.NewList[Product](s.t, transport.Call{Operation: operation.ProductList, Options: options})
}

// ProductSearchOptions says which products are looked for. That all its conditions apply
// together, and that the zero value finds every product of the brands that the clinic
// may order, are assumptions: the API shows the parameters only.
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

// Search returns the products that match. It respects brand segmentation: it finds only
// brands that are available to the clinic.
// API section: GET /catalog/search/products.
func (s Products) Search(o ProductSearchOptions, options ...api.RequestOption) *api.List[Product] {
	return transport.NewList[Product](s.t, transport.Call{Operation: operation.ProductSearch, Query: o, Options: options})
}

// Similar returns the products that the platform finds similar, the most popular first.
// API section: GET /catalog/products/<product_id>/similar.
func (s Products) Similar(productID string, options ...api.RequestOption) *api.List[Product] {
	return transport.NewList[Product](s.t, transport.Call{Operation: operation.ProductSimilar, Path: []string{productID}, Options: options})
}
