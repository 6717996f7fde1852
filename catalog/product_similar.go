package catalog

import (
	"context"
	"iter"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

func (s Products) similar(productID string, options []api.RequestOption) transport.Call {
	return transport.Call{Operation: operation.ProductSimilar, Path: []string{productID}, Options: options}
}

// Similar returns one page of products like the given one, the most popular
// first.
// API section: GET /catalog/products/<product_id>/similar.
func (s Products) Similar(ctx context.Context, productID string, o ProductListOptions, options ...api.RequestOption) (*api.Page[Product], error) {
	return transport.List[Product](ctx, s.t, s.similar(productID, options), o.Paging)
}

// SimilarPages returns products like the given one page by page; an error ends
// the sequence.
// API section: GET /catalog/products/<product_id>/similar.
func (s Products) SimilarPages(ctx context.Context, productID string, o ProductListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[Product], error] {
	return transport.Pages[Product](ctx, s.t, s.similar(productID, options), o.Paging)
}

// SimilarAll returns products like the given one, one by one, the most popular
// first; an error ends the sequence.
// API section: GET /catalog/products/<product_id>/similar.
func (s Products) SimilarAll(ctx context.Context, productID string, o ProductListOptions, options ...api.RequestOption) iter.Seq2[Product, error] {
	return transport.All[Product](ctx, s.t, s.similar(productID, options), o.Paging)
}
