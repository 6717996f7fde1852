package people

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// CreateProduct brings a product into the catalog: product.created, whose data
// is not wrapped.
func (p *People) CreateProduct(in model.NewProduct) (out model.Product, e model.Event, err error) {
	err = p.act(func(w *store.World) error {
		row := &model.Product{
			Name: cmp.Or(in.Name, fmt.Sprintf("New Formula %d", w.Products.Len()+1)), BrandID: cmp.Or(in.BrandID, w.Brands.At(0).ID),
			DescriptionHTML: in.DescriptionHTML,
		}
		brand, known := w.Brands.Get(row.BrandID)
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
		w.Products.Put(row.ID, row)
		w.RefreshBrand(row.BrandID)
		out, e = store.Detached(*row), p.emit(model.ProductCreated, "", row.ID, p.unwrapped("product", view.Product(w, row, nil, p.Behaviors.Get())))
		return nil
	})
	return out, e, err
}

// UpdateProduct changes a product: product.updated.
func (p *People) UpdateProduct(productID string, in model.ProductChange) (model.Product, model.Event, error) {
	return p.changeProduct("UpdateProduct", productID, model.ProductUpdated, func(row *model.Product) error {
		set(&row.Name, in.Name)
		set(&row.Dosage, in.Dosage)
		if row.Name == "" {
			return model.Refused("UpdateProduct", model.ErrInvalid, "a product needs a name")
		}
		return nil
	})
}

// DescribeProduct gives a product another description:
// product.description.updated.
func (p *People) DescribeProduct(productID, html string) (model.Product, model.Event, error) {
	return p.changeProduct("DescribeProduct", productID, model.ProductDescriptionUpdated, func(row *model.Product) error {
		row.DescriptionHTML = html
		return nil
	})
}

func (p *People) changeProduct(action, productID, kind string, change func(*model.Product) error) (out model.Product, e model.Event, err error) {
	err = p.act(func(w *store.World) error {
		old, known := w.Products.Get(productID)
		if !known || old.Removed {
			return model.Unknown(action, "product", productID)
		}
		row := *old
		if err := change(&row); err != nil {
			return err
		}
		w.Products.Put(row.ID, &row)
		out, e = store.Detached(row), p.emit(kind, "", row.ID, view.ProductData(w, &row, p.Behaviors.Get()))
		return nil
	})
	return out, e, err
}

// RemoveProduct takes a product out of the catalog, without an event.
func (p *People) RemoveProduct(productID string) error {
	return p.act(func(w *store.World) error {
		old, known := w.Products.Get(productID)
		if !known || old.Removed {
			return model.Unknown("RemoveProduct", "product", productID)
		}
		row := *old
		row.Removed = true
		w.Products.Put(row.ID, &row)
		w.RefreshBrand(row.BrandID)
		return nil
	})
}

// UpdateVariant changes a pack of a product: product.updated.
func (p *People) UpdateVariant(variantID string, in model.VariantChange) (out model.Variant, e model.Event, err error) {
	err = p.act(func(w *store.World) error {
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
		w.Variants.Put(row.ID, &row)
		product, _ := w.Products.Get(row.ProductID)
		w.RefreshBrand(product.BrandID)
		out, e = store.Detached(row), p.emit(model.ProductUpdated, "", product.ID, view.ProductData(w, product, p.Behaviors.Get()))
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
