package catalog

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

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
