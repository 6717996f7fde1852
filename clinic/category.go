package clinic

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Category is a group of the clinic's products. Assumption: the clinic assigns the products.
// The API does not document it.
// API section: "Category".
type Category struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	// ProductCount is the number of products. It is 0 unless [Categories.Get] returned the
	// category.
	ProductCount int `json:"product_count"`
}

// Categories calls the category endpoints. Get it from [Service].
type Categories struct{ t *transport.Client }

// Get returns one category with the number of its products. An unknown ID
// matches [api.ErrNotFound].
// API section: GET /clinic/categories/<id>.
func (s Categories) Get(ctx context.Context, id string, options ...api.RequestOption) (*Category, error) {
	return transport.One[Category](ctx, s.t, transport.Call{Operation: operation.CategoryGet, Path: []string{id}, Options: options})
}

// List returns the clinic's categories.
// API section: GET /clinic/categories.
func (s Categories) List(options ...api.RequestOption) *api.List[Category] {
	return transport.NewList[Category](s.t, transport.Call{Operation: operation.CategoryList, Options: options})
}

// Products returns a category's products, in the form of product lists: see
// [catalog.Product].
// API section: GET /clinic/categories/<category_id>/products.
func (s Categories) Products(categoryID string, options ...api.RequestOption) *api.List[catalog.Product] {
	return transport.NewList[catalog.Product](s.t, transport.Call{Operation: operation.CategoryProductList, Path: []string{categoryID}, Options: options})
}
