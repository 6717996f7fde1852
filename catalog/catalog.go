// Package catalog reads the platform's product catalog. All of it is read-only and needs the
// scope catalog:read, which every application has.
//
// The root client contains its [Service]:
//
//	for product, err := range client.Catalog.Products.List().All(ctx) { … }
//
// API section: "Catalog".
package catalog

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Service contains the services of the catalog. Get it from the root client.
type Service struct {
	Allergens                Allergens
	Brands                   Brands
	Ingredients              Ingredients
	PractitionerTypes        PractitionerTypes
	Products                 Products
	SupplementTypes          SupplementTypes
	ThirdPartyCertifications ThirdPartyCertifications
	Variants                 Variants
}

// NewService returns the services of the catalog. It is for this module only: t is internal.
func NewService(t *transport.Client) Service {
	return Service{
		Allergens:                Allergens{t},
		Brands:                   Brands{t},
		Ingredients:              Ingredients{t},
		PractitionerTypes:        PractitionerTypes{t},
		Products:                 Products{t},
		SupplementTypes:          SupplementTypes{t},
		ThirdPartyCertifications: ThirdPartyCertifications{t},
		Variants:                 Variants{t},
	}
}

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

// Allergen is a substance that patients avoid. No third party attests the allergen data of a
// product.
// API section: "Allergen, ingredient, supplement type, third party certification".
type Allergen struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Allergens calls the allergen endpoints. Get it from [Service].
type Allergens struct{ t *transport.Client }

// Get returns one allergen. An unknown ID matches [api.ErrNotFound].
// API section: GET /catalog/allergens/<id>.
func (s Allergens) Get(ctx context.Context, id string, options ...api.RequestOption) (*Allergen, error) {
	return transport.One[Allergen](ctx, s.t, transport.Call{Operation: operation.AllergenGet, Path: []string{id}, Options: options})
}

// List returns all allergens.
// API section: GET /catalog/allergens.
func (s Allergens) List(options ...api.RequestOption) *api.List[Allergen] {
	return transport.NewList[Allergen](s.t, transport.Call{Operation: operation.AllergenList, Options: options})
}

// Ingredient is an ingredient of products.
// API section: "Allergen, ingredient, supplement type, third party certification".
type Ingredient struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Ingredients calls the ingredient endpoints. Get it from [Service].
type Ingredients struct{ t *transport.Client }

// Get returns one ingredient. An unknown ID matches [api.ErrNotFound].
// API section: GET /catalog/ingredients/<id>.
func (s Ingredients) Get(ctx context.Context, id string, options ...api.RequestOption) (*Ingredient, error) {
	return transport.One[Ingredient](ctx, s.t, transport.Call{Operation: operation.IngredientGet, Path: []string{id}, Options: options})
}

// List returns all ingredients.
// API section: GET /catalog/ingredients.
func (s Ingredients) List(options ...api.RequestOption) *api.List[Ingredient] {
	return transport.NewList[Ingredient](s.t, transport.Call{Operation: operation.IngredientList, Options: options})
}

// SupplementType is a kind of product.
// API section: "Allergen, ingredient, supplement type, third party certification".
type SupplementType struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// SupplementTypes calls the supplement type endpoints. Get it from [Service].
type SupplementTypes struct{ t *transport.Client }

// Get returns one supplement type. An unknown ID matches [api.ErrNotFound].
// API section: GET /catalog/supplement_types/<id>.
func (s SupplementTypes) Get(ctx context.Context, id string, options ...api.RequestOption) (*SupplementType, error) {
	return transport.One[SupplementType](ctx, s.t, transport.Call{Operation: operation.SupplementTypeGet, Path: []string{id}, Options: options})
}

// List returns all supplement types.
// API section: GET /catalog/supplement_types.
func (s SupplementTypes) List(options ...api.RequestOption) *api.List[SupplementType] {
	return transport.NewList[SupplementType](s.t, transport.Call{Operation: operation.SupplementTypeList, Options: options})
}

// ThirdPartyCertification is a certificate that an external party issues for a product.
// API section: "Allergen, ingredient, supplement type, third party certification".
type ThirdPartyCertification struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// ThirdPartyCertifications calls the third-party certification endpoints. Get it from [Service].
type ThirdPartyCertifications struct{ t *transport.Client }

// Get returns one third-party certification. An unknown ID matches [api.ErrNotFound].
// API section: GET /catalog/third_party_certifications/<id>.
func (s ThirdPartyCertifications) Get(ctx context.Context, id string, options ...api.RequestOption) (*ThirdPartyCertification, error) {
	return transport.One[ThirdPartyCertification](ctx, s.t, transport.Call{Operation: operation.ThirdPartyCertificationGet, Path: []string{id}, Options: options})
}

// List returns all third-party certifications.
// API section: GET /catalog/third_party_certifications.
func (s ThirdPartyCertifications) List(options ...api.RequestOption) *api.List[ThirdPartyCertification] {
	return transport.NewList[ThirdPartyCertification](s.t, transport.Call{Operation: operation.ThirdPartyCertificationList, Options: options})
}

// PractitionerType is a profession. You need its ID to create a practitioner.
// API section: "Practitioner type".
type PractitionerType struct {
	ID string `json:"id"`

	// Code is a short code, for example ND. Description explains it.
	Code        string `json:"code"`
	Description string `json:"description"`
}

// PractitionerTypes calls the practitioner type endpoint. Get it from [Service].
type PractitionerTypes struct{ t *transport.Client }

// List returns all practitioner types.
// API section: GET /catalog/practitioner_types.
func (s PractitionerTypes) List(options ...api.RequestOption) *api.List[PractitionerType] {
	return transport.NewList[PractitionerType](s.t, transport.Call{Operation: operation.PractitionerTypeList, Options: options})
}
