package catalog

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Brand is a maker of products.
// API section: "Brand".
type Brand struct {
	ID string `json:"id"`

	// Name is the commercial name. Prefix is the unique prefix of the brand's SKUs.
	Name   string `json:"name"`
	Prefix string `json:"prefix"`

	// Status is [StatusAvailable] if some of the brand's products are in stock and can be
	// ordered, otherwise [StatusUnavailable]. It ignores whether a practitioner may order them.
	Status Status `json:"status"`
}

// Status is the availability of a brand, a product or a variant. The platform may add values:
// treat an unknown one as not available.
type Status string

// The known statuses. A product is available if any of its variants is available, otherwise
// backordered if any is backordered, otherwise unavailable.
// API section: "Product", "Variant", "Other status values".
const (
	StatusAvailable         Status = "available"
	StatusBackordered       Status = "backordered"
	StatusVendorBackordered Status = "vendor backorder" // variants only
	StatusDiscontinued      Status = "discontinued"     // variants only
	StatusUnavailable       Status = "unavailable"
)

// BrandSummary is the brand of a product.
type BrandSummary struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	// Prefix is the unique prefix of the brand's SKUs.
	Prefix string `json:"prefix"`
}

// Brands calls the brand endpoints. Get it from [Service].
type Brands struct{ t *transport.Client }

// Get returns one brand. An unknown ID matches [api.ErrNotFound].
// API section: GET /catalog/brands/<id>.
func (s Brands) Get(ctx context.Context, id string, options ...api.RequestOption) (*Brand, error) {
	return transport.One[Brand](ctx, s.t, transport.Call{Operation: operation.BrandGet, Path: []string{id}, Options: options})
}

// BrandListOptions filter brands. The zero value selects all brands.
type BrandListOptions struct {
	// Available selects brands with available products.
	Available bool `url:"available,omitempty"`

	// ClinicPermitted selects brands that the current clinic can order.
	ClinicPermitted bool `url:"clinic_permitted,omitempty"`
}

// List returns the brands that match o.
// API section: GET /catalog/brands.
func (s Brands) List(o BrandListOptions, options ...api.RequestOption) *api.List[Brand] {
	return transport.NewList[Brand](s.t, transport.Call{Operation: operation.BrandList, Query: o, Options: options})
}
