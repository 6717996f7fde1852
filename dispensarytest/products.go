package dispensarytest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Products is the catalog, and how it changes. Actions make events,
// as on the real platform, and return them; see [Server].
type Products struct{ actions }

// Brands returns all brands.
func (p Products) Brands() []model.Brand {
	return all(p.server, func(w *store.World) table.Table[*model.Brand] { return w.Brands })
}

// Get returns a product by id, a removed one too.
func (p Products) Get(id string) (model.Product, bool) {
	return find(p.server, func(w *store.World) table.Table[*model.Product] { return w.Products }, id)
}

// Variant returns a variant by id.
func (p Products) Variant(id string) (model.Variant, bool) {
	return find(p.server, func(w *store.World) table.Table[*model.Variant] { return w.Variants }, id)
}

// All returns all products that are not removed, in the catalog's order.
func (p Products) All() []model.Product {
	products := all(p.server, func(w *store.World) table.Table[*model.Product] { return w.Products })
	return slices.DeleteFunc(products, func(p model.Product) bool { return p.Removed })
}

// Create brings a product into the catalog: product.created, whose data
// is not wrapped.
func (p Products) Create(in model.NewProduct) (out model.Product, e model.Event, err error) {
	err = transact(p.server, func(w *store.World) error {
		row := &model.Product{
			Name: cmp.Or(in.Name, fmt.Sprintf("New Formula %d", len(w.Products.Rows)+1)), BrandID: cmp.Or(in.BrandID, table.At(w.Brands, 0).ID),
			DescriptionHTML: in.DescriptionHTML,
		}
		brand, known := w.Brands.Rows[row.BrandID]
		if !known {
			return model.Unknown("CreateProduct", "brand", row.BrandID)
		}
		packs := in.Variants
		if len(packs) == 0 {
			packs = []model.NewVariant{{}}
		}
		for _, pack := range packs {
			if err := statusFits("CreateProduct", cmp.Or(pack.Status, model.VariantAvailable)); err != nil {
				return err
			}
		}
		row.ID = w.NewID("product")
		for i, pack := range packs {
			v := w.NewVariant(row.ID, brand.Prefix, i == 0, pack)
			row.VariantIDs = append(row.VariantIDs, v.ID)
		}
		table.Put(&w.Products, row.ID, row)
		w.RefreshBrand(row.BrandID)
		out, e = store.Detached(*row), p.emit(model.ProductCreated, "", row.ID, p.unwrapped("product", view.Product(w, row, nil, p.server.behaviors.Get())))
		return nil
	})
	return out, e, err
}

// Update changes a product: product.updated.
func (p Products) Update(productID string, in model.ProductChange) (model.Product, model.Event, error) {
	return p.changeProduct("UpdateProduct", productID, model.ProductUpdated, func(row *model.Product) error {
		set(&row.Name, in.Name)
		set(&row.Dosage, in.Dosage)
		if row.Name == "" {
			return model.Refused("UpdateProduct", model.ErrInvalid, "a product needs a name")
		}
		return nil
	})
}

// Describe gives a product another description:
// product.description.updated.
func (p Products) Describe(productID, html string) (model.Product, model.Event, error) {
	return p.changeProduct("DescribeProduct", productID, model.ProductDescriptionUpdated, func(row *model.Product) error {
		row.DescriptionHTML = html
		return nil
	})
}

func (p Products) changeProduct(action, productID, kind string, change func(*model.Product) error) (out model.Product, e model.Event, err error) {
	err = transact(p.server, func(w *store.World) error {
		old, known := w.Products.Rows[productID]
		if !known || old.Removed {
			return model.Unknown(action, "product", productID)
		}
		row := *old
		if err := change(&row); err != nil {
			return err
		}
		table.Put(&w.Products, row.ID, &row)
		out, e = store.Detached(row), p.emit(kind, "", row.ID, view.ProductData(w, &row, p.server.behaviors.Get()))
		return nil
	})
	return out, e, err
}

// Remove takes a product out of the catalog: lists, searches and single products do not have
// it any more, nor its variants, and it cannot be recommended. Orders and plans keep what they
// refer to. The API cannot do that, and has no event type for it, so it makes no event.
func (p Products) Remove(productID string) error {
	return transact(p.server, func(w *store.World) error {
		old, known := w.Products.Rows[productID]
		if !known || old.Removed {
			return model.Unknown("RemoveProduct", "product", productID)
		}
		row := *old
		row.Removed = true
		table.Put(&w.Products, row.ID, &row)
		w.RefreshBrand(row.BrandID)
		return nil
	})
}

// UpdateVariant changes a pack of a product: product.updated.
func (p Products) UpdateVariant(variantID string, in model.VariantChange) (out model.Variant, e model.Event, err error) {
	err = transact(p.server, func(w *store.World) error {
		old, known := w.Variant(variantID)
		if !known {
			return model.Unknown("UpdateVariant", "variant", variantID)
		}
		row := *old
		set(&row.MSRP, in.MSRP)
		set(&row.Status, in.Status)
		set(&row.Units, in.Units)
		set(&row.UnitOfMeasure, in.UnitOfMeasure)
		set(&row.UPC, in.UPC)
		set(&row.SupplierSKU, in.SupplierSKU)
		if err := variantFits(&row); err != nil {
			return err
		}
		table.Put(&w.Variants, row.ID, &row)
		product, _ := w.Products.Rows[row.ProductID]
		w.RefreshBrand(product.BrandID)
		out, e = store.Detached(row), p.emit(model.ProductUpdated, "", product.ID, view.ProductData(w, product, p.server.behaviors.Get()))
		return nil
	})
	return out, e, err
}

// variantFits checks a changed variant. Its status can be null.
func variantFits(v *model.Variant) error {
	switch {
	case v.MSRP < 0:
		return model.Refused("UpdateVariant", model.ErrInvalid, "%s is not a price", v.MSRP)
	case v.Units < 0:
		return model.Refused("UpdateVariant", model.ErrInvalid, "%d is not a number of units", v.Units)
	case v.Status == "":
		return nil
	}
	return statusFits("UpdateVariant", v.Status)
}

func statusFits(action, status string) error {
	known := []string{model.VariantAvailable, model.VariantBackordered, model.VariantDiscontinued, model.VariantUnavailable, model.VariantVendorBackorder}
	if !slices.Contains(known, status) {
		return model.Refused(action, model.ErrInvalid, "%q is none of the variant statuses", status)
	}
	return nil
}
