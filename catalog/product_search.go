package catalog

import (
	"context"
	"iter"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

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

	api.Paging `url:"-"`
}

// Search returns one page of the products that match. It respects brand
// segmentation: only brands available to the clinic are found.
// API section: GET /catalog/search/products.
func (s Products) Search(ctx context.Context, o ProductSearchOptions, options ...api.RequestOption) (*api.Page[Product], error) {
	return transport.List[Product](ctx, s.t, transport.Call{Operation: operation.ProductSearch, Query: o, Options: options}, o.Paging)
}

// SearchPages returns the products that match page by page; an error ends the
// sequence.
// API section: GET /catalog/search/products.
func (s Products) SearchPages(ctx context.Context, o ProductSearchOptions, options ...api.RequestOption) iter.Seq2[*api.Page[Product], error] {
	return transport.Pages[Product](ctx, s.t, transport.Call{Operation: operation.ProductSearch, Query: o, Options: options}, o.Paging)
}

// SearchAll returns the products that match one by one; an error ends the
// sequence.
// API section: GET /catalog/search/products.
func (s Products) SearchAll(ctx context.Context, o ProductSearchOptions, options ...api.RequestOption) iter.Seq2[Product, error] {
	return transport.All[Product](ctx, s.t, transport.Call{Operation: operation.ProductSearch, Query: o, Options: options}, o.Paging)
}
