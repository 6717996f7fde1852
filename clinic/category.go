package clinic

import (
	"context"
	"iter"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Category is a group of products of the clinic. Who puts it together is not stated;
// the clinic is assumed to.
// API section: "Category".
type Category struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	// ProductCount comes only with [Categories.Get]; 0 in lists.
	ProductCount int `json:"product_count"`
}

// Categories calls the category endpoints. Get it from [Service].
type Categories struct{ t *transport.Client }

// Get returns one category with the number of its products. An unknown id
// matches [api.ErrNotFound].
// API section: GET /clinic/categories/<id>.
func (s Categories) Get(ctx context.Context, id string, options ...api.RequestOption) (*Category, error) {
	return transport.One[Category](ctx, s.t, transport.Call{Operation: operation.CategoryGet, Path: []string{id}, Options: options})
}

// CategoryListOptions says which part of a list, of categories or of the products
// of one, is read.
type CategoryListOptions struct {
	api.Paging
}

// List returns one page of the clinic's categories.
// API section: GET /clinic/categories.
func (s Categories) List(ctx context.Context, o CategoryListOptions, options ...api.RequestOption) (*api.Page[Category], error) {
	return transport.List[Category](ctx, s.t, transport.Call{Operation: operation.CategoryList, Options: options}, o.Paging)
}

// Pages returns the clinic's categories page by page; an error ends the sequence.
// API section: GET /clinic/categories.
func (s Categories) Pages(ctx context.Context, o CategoryListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[Category], error] {
	return transport.Pages[Category](ctx, s.t, transport.Call{Operation: operation.CategoryList, Options: options}, o.Paging)
}

// All returns the clinic's categories one by one; an error ends the sequence.
// API section: GET /clinic/categories.
func (s Categories) All(ctx context.Context, o CategoryListOptions, options ...api.RequestOption) iter.Seq2[Category, error] {
	return transport.All[Category](ctx, s.t, transport.Call{Operation: operation.CategoryList, Options: options}, o.Paging)
}

func (s Categories) products(categoryID string, options []api.RequestOption) transport.Call {
	return transport.Call{Operation: operation.CategoryProductList, Path: []string{categoryID}, Options: options}
}

// Products returns one page of a category's products, in the form of product
// lists: see [catalog.Product].
// API section: GET /clinic/categories/<category_id>/products.
func (s Categories) Products(ctx context.Context, categoryID string, o CategoryListOptions, options ...api.RequestOption) (*api.Page[catalog.Product], error) {
	return transport.List[catalog.Product](ctx, s.t, s.products(categoryID, options), o.Paging)
}

// ProductPages returns a category's products page by page; an error ends the
// sequence.
// API section: GET /clinic/categories/<category_id>/products.
func (s Categories) ProductPages(ctx context.Context, categoryID string, o CategoryListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[catalog.Product], error] {
	return transport.Pages[catalog.Product](ctx, s.t, s.products(categoryID, options), o.Paging)
}

// ProductAll returns a category's products one by one; an error ends the
// sequence.
// API section: GET /clinic/categories/<category_id>/products.
func (s Categories) ProductAll(ctx context.Context, categoryID string, o CategoryListOptions, options ...api.RequestOption) iter.Seq2[catalog.Product, error] {
	return transport.All[catalog.Product](ctx, s.t, s.products(categoryID, options), o.Paging)
}
