package catalog

import (
	"context"
	"iter"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// PractitionerType is a profession, to be named when a practitioner is created.
// API section: "Practitioner type".
type PractitionerType struct {
	ID string `json:"id"`

	// Code is short, for example ND; Description says what it means.
	Code        string `json:"code"`
	Description string `json:"description"`
}

// PractitionerTypes calls the practitioner type endpoint. Get it from [Service].
type PractitionerTypes struct{ t *transport.Client }

// PractitionerTypeListOptions says which part of the practitioner type list is read.
type PractitionerTypeListOptions struct {
	api.Paging
}

// List returns one page of all practitioner types.
// API section: GET /catalog/practitioner_types.
func (s PractitionerTypes) List(ctx context.Context, o PractitionerTypeListOptions, options ...api.RequestOption) (*api.Page[PractitionerType], error) {
	return transport.List[PractitionerType](ctx, s.t, transport.Call{Operation: operation.PractitionerTypeList, Options: options}, o.Paging)
}

// Pages returns all practitioner types page by page; an error ends the sequence.
// API section: GET /catalog/practitioner_types.
func (s PractitionerTypes) Pages(ctx context.Context, o PractitionerTypeListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[PractitionerType], error] {
	return transport.Pages[PractitionerType](ctx, s.t, transport.Call{Operation: operation.PractitionerTypeList, Options: options}, o.Paging)
}

// All returns all practitioner types one by one; an error ends the sequence.
// API section: GET /catalog/practitioner_types.
func (s PractitionerTypes) All(ctx context.Context, o PractitionerTypeListOptions, options ...api.RequestOption) iter.Seq2[PractitionerType, error] {
	return transport.All[PractitionerType](ctx, s.t, transport.Call{Operation: operation.PractitionerTypeList, Options: options}, o.Paging)
}
