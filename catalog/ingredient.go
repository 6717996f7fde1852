package catalog

import (
	"context"
	"iter"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Ingredient is what products are made of.
// API section: "Allergen, ingredient, supplement type, third party certification".
type Ingredient struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Ingredients calls the ingredient endpoints. Get it from [Service].
type Ingredients struct{ t *transport.Client }

// Get returns one ingredient. An unknown id matches [api.ErrNotFound].
// API section: GET /catalog/ingredients/<id>.
func (s Ingredients) Get(ctx context.Context, id string, options ...api.RequestOption) (*Ingredient, error) {
	return transport.One[Ingredient](ctx, s.t, transport.Call{Operation: operation.IngredientGet, Path: []string{id}, Options: options})
}

// IngredientListOptions says which part of the ingredient list is read.
type IngredientListOptions struct {
	api.Paging
}

// List returns one page of all ingredients.
// API section: GET /catalog/ingredients.
func (s Ingredients) List(ctx context.Context, o IngredientListOptions, options ...api.RequestOption) (*api.Page[Ingredient], error) {
	return transport.List[Ingredient](ctx, s.t, transport.Call{Operation: operation.IngredientList, Options: options}, o.Paging)
}

// Pages returns all ingredients page by page; an error ends the sequence.
// API section: GET /catalog/ingredients.
func (s Ingredients) Pages(ctx context.Context, o IngredientListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[Ingredient], error] {
	return transport.Pages[Ingredient](ctx, s.t, transport.Call{Operation: operation.IngredientList, Options: options}, o.Paging)
}

// All returns all ingredients one by one; an error ends the sequence.
// API section: GET /catalog/ingredients.
func (s Ingredients) All(ctx context.Context, o IngredientListOptions, options ...api.RequestOption) iter.Seq2[Ingredient, error] {
	return transport.All[Ingredient](ctx, s.t, transport.Call{Operation: operation.IngredientList, Options: options}, o.Paging)
}
