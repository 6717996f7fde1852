package store

import (
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Catalog contains the catalog, which all clinics share.
type Catalog struct {
	Allergens         table.Table[*Term]
	Ingredients       table.Table[*Term]
	SupplementTypes   table.Table[*Term]
	Certifications    table.Table[*Term]
	PractitionerTypes table.Table[*PractitionerType]
	Brands            table.Table[*Brand]
	Products          table.Table[*model.Product]
	Variants          table.Table[*model.Variant]
}

// Term is an entry of one of the catalog's word lists: an allergen, an ingredient, a
// supplement type or a third-party certification. API section: "Resources and their fields".
type Term struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// PractitionerType is a profession. API section: "Practitioner type".
type PractitionerType struct {
	ID          string `json:"id"`
	Code        string `json:"code"`
	Description string `json:"description"`
}

// Brand is a maker of products. API section: "Brand".
type Brand struct {
	ID     string
	Name   string
	Prefix string

	// Available reports whether at least one product can be ordered. The API calls it the
	// status. The platform updates it.
	Available bool

	// Restricted brands are open only to the clinics in ClinicIDs. For other clinics, product
	// search and clinic_permitted omit them.
	Restricted bool
	ClinicIDs  []string
}

// Permits reports whether a brand is open to a clinic.
func (b *Brand) Permits(clinicID string) bool {
	return !b.Restricted || slices.Contains(b.ClinicIDs, clinicID)
}

func (c *Catalog) Brand(id string) (*Brand, bool) { return table.Get(c.Brands, id) }

// OpenTo reports whether a clinic can order a product of the catalog.
func (c *Catalog) OpenTo(clinicID string, p *model.Product) bool {
	brand, known := table.Get(c.Brands, p.BrandID)
	return !p.Removed && known && brand.Permits(clinicID)
}

// PutProduct stores a product with the text that a product search reads: name, brand and SKUs.
func (c *Catalog) PutProduct(p *model.Product) {
	words := append(make([]string, 0, 4), p.Name)
	if brand, known := table.Get(c.Brands, p.BrandID); known {
		words = append(words, brand.Name)
	}
	for _, v := range c.ProductVariants(p) {
		words = append(words, v.SKU)
	}
	table.PutText(&c.Products, p, strings.Join(words, "\n"))
}

// Variant returns a variant of the catalog. It returns false if its product was removed.
func (c *Catalog) Variant(id string) (*model.Variant, bool) {
	v, known := table.Get(c.Variants, id)
	if !known {
		return nil, false
	}
	p, known := table.Get(c.Products, v.ProductID)
	return v, known && !p.Removed
}

// ProductVariants returns the packs of a product, the primary one first.
func (c *Catalog) ProductVariants(p *model.Product) []*model.Variant {
	variants := make([]*model.Variant, 0, len(p.VariantIDs))
	for _, id := range p.VariantIDs {
		if v, ok := table.Get(c.Variants, id); ok {
			variants = append(variants, v)
		}
	}
	return variants
}

// ProductStatus derives the status of a product: available if any variant is available, else
// backordered if any is backordered, else unavailable. API section: "Product".
func (c *Catalog) ProductStatus(p *model.Product, behaviors *rules.Set) string {
	status := model.VariantUnavailable
	for _, id := range p.VariantIDs {
		v, _ := table.Get(c.Variants, id)
		switch {
		case v.Status == model.VariantAvailable:
			return model.VariantAvailable
		case v.Status == model.VariantBackordered, v.Status == model.VariantVendorBackorder && behaviors.Is(behavior.VendorBackorderBackordered):
			status = model.VariantBackordered
		}
	}
	return status
}

// onSale reports whether a product has an available variant.
func (c *Catalog) onSale(p *model.Product) bool {
	return !p.Removed && slices.ContainsFunc(p.VariantIDs, func(id string) bool {
		v, _ := table.Get(c.Variants, id)
		return v.Status == model.VariantAvailable
	})
}

// RefreshBrand recomputes whether a brand has a product on sale.
func (c *Catalog) RefreshBrand(brandID string) {
	brand, ok := table.Get(c.Brands, brandID)
	if !ok {
		return
	}
	available := slices.ContainsFunc(table.Of(c.Products, byBrand, brandID), c.onSale)
	if available != brand.Available {
		changed := *brand
		changed.Available = available
		table.Put(&c.Brands, &changed)
	}
}

func (c *Catalog) FirstAvailable() *model.Variant {
	for _, v := range c.Variants.Rows {
		if v.Status == model.VariantAvailable {
			return v
		}
	}
	return nil
}
