package catalog

import (
	"context"
	"iter"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

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
