package catalog

import (
	"context"
	"iter"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Allergen is something that patients avoid. What is said of a product's
// ingredients is not attested by a third party.
// API section: "Allergen, ingredient, supplement type, third party certification".
type Allergen struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Allergens calls the allergen endpoints. Get it from [Service].
type Allergens struct{ t *transport.Client }

// Get returns one allergen. An unknown id matches [api.ErrNotFound].
// API section: GET /catalog/allergens/<id>.
func (s Allergens) Get(ctx context.Context, id string, options ...api.RequestOption) (*Allergen, error) {
	return transport.One[Allergen](ctx, s.t, transport.Call{Operation: operation.AllergenGet, Path: []string{id}, Options: options})
}

// AllergenListOptions says which part of the allergen list is read.
type AllergenListOptions struct {
	api.Paging
}

// List returns one page of all allergens.
// API section: GET /catalog/allergens.
func (s Allergens) List(ctx context.Context, o AllergenListOptions, options ...api.RequestOption) (*api.Page[Allergen], error) {
	return transport.List[Allergen](ctx, s.t, transport.Call{Operation: operation.AllergenList, Options: options}, o.Paging)
}

// Pages returns all allergens page by page; an error ends the sequence.
// API section: GET /catalog/allergens.
func (s Allergens) Pages(ctx context.Context, o AllergenListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[Allergen], error] {
	return transport.Pages[Allergen](ctx, s.t, transport.Call{Operation: operation.AllergenList, Options: options}, o.Paging)
}

// All returns all allergens one by one; an error ends the sequence.
// API section: GET /catalog/allergens.
func (s Allergens) All(ctx context.Context, o AllergenListOptions, options ...api.RequestOption) iter.Seq2[Allergen, error] {
	return transport.All[Allergen](ctx, s.t, transport.Call{Operation: operation.AllergenList, Options: options}, o.Paging)
}
