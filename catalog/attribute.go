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

// SupplementType is a kind of product.
// API section: "Allergen, ingredient, supplement type, third party certification".
type SupplementType struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// SupplementTypes calls the supplement type endpoints. Get it from [Service].
type SupplementTypes struct{ t *transport.Client }

// Get returns one supplement type. An unknown id matches [api.ErrNotFound].
// API section: GET /catalog/supplement_types/<id>.
func (s SupplementTypes) Get(ctx context.Context, id string, options ...api.RequestOption) (*SupplementType, error) {
	return transport.One[SupplementType](ctx, s.t, transport.Call{Operation: operation.SupplementTypeGet, Path: []string{id}, Options: options})
}

// SupplementTypeListOptions says which part of the supplement type list is read.
type SupplementTypeListOptions struct {
	api.Paging
}

// List returns one page of all supplement types.
// API section: GET /catalog/supplement_types.
func (s SupplementTypes) List(ctx context.Context, o SupplementTypeListOptions, options ...api.RequestOption) (*api.Page[SupplementType], error) {
	return transport.List[SupplementType](ctx, s.t, transport.Call{Operation: operation.SupplementTypeList, Options: options}, o.Paging)
}

// Pages returns all supplement types page by page; an error ends the sequence.
// API section: GET /catalog/supplement_types.
func (s SupplementTypes) Pages(ctx context.Context, o SupplementTypeListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[SupplementType], error] {
	return transport.Pages[SupplementType](ctx, s.t, transport.Call{Operation: operation.SupplementTypeList, Options: options}, o.Paging)
}

// All returns all supplement types one by one; an error ends the sequence.
// API section: GET /catalog/supplement_types.
func (s SupplementTypes) All(ctx context.Context, o SupplementTypeListOptions, options ...api.RequestOption) iter.Seq2[SupplementType, error] {
	return transport.All[SupplementType](ctx, s.t, transport.Call{Operation: operation.SupplementTypeList, Options: options}, o.Paging)
}

// ThirdPartyCertification is what an external party attests of a product.
// API section: "Allergen, ingredient, supplement type, third party certification".
type ThirdPartyCertification struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// ThirdPartyCertifications calls the third-party certification endpoints. Get it from [Service].
type ThirdPartyCertifications struct{ t *transport.Client }

// Get returns one third-party certification. An unknown id matches [api.ErrNotFound].
// API section: GET /catalog/third_party_certifications/<id>.
func (s ThirdPartyCertifications) Get(ctx context.Context, id string, options ...api.RequestOption) (*ThirdPartyCertification, error) {
	return transport.One[ThirdPartyCertification](ctx, s.t, transport.Call{Operation: operation.ThirdPartyCertificationGet, Path: []string{id}, Options: options})
}

// ThirdPartyCertificationListOptions says which part of the third-party certification list is read.
type ThirdPartyCertificationListOptions struct {
	api.Paging
}

// List returns one page of all third-party certifications.
// API section: GET /catalog/third_party_certifications.
func (s ThirdPartyCertifications) List(ctx context.Context, o ThirdPartyCertificationListOptions, options ...api.RequestOption) (*api.Page[ThirdPartyCertification], error) {
	return transport.List[ThirdPartyCertification](ctx, s.t, transport.Call{Operation: operation.ThirdPartyCertificationList, Options: options}, o.Paging)
}

// Pages returns all third-party certifications page by page; an error ends the sequence.
// API section: GET /catalog/third_party_certifications.
func (s ThirdPartyCertifications) Pages(ctx context.Context, o ThirdPartyCertificationListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[ThirdPartyCertification], error] {
	return transport.Pages[ThirdPartyCertification](ctx, s.t, transport.Call{Operation: operation.ThirdPartyCertificationList, Options: options}, o.Paging)
}

// All returns all third-party certifications one by one; an error ends the sequence.
// API section: GET /catalog/third_party_certifications.
func (s ThirdPartyCertifications) All(ctx context.Context, o ThirdPartyCertificationListOptions, options ...api.RequestOption) iter.Seq2[ThirdPartyCertification, error] {
	return transport.All[ThirdPartyCertification](ctx, s.t, transport.Call{Operation: operation.ThirdPartyCertificationList, Options: options}, o.Paging)
}
