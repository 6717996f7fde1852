package catalog

import (
	"context"
	"iter"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

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
