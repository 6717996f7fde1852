// Package catalog reads the platform's product catalog. All of it is read-only and needs the
// scope catalog:read, which every application has.
//
// The root client contains its [Service]:
//
//	for product, err := range client.Catalog.Products.List().All(ctx) { … }
//
// API section: "Catalog".
package catalog

import "github.com/dispensary-go/dispensary/internal/transport"

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
