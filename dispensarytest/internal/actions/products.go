package actions

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/form"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Products changes the catalog.
type Products struct {
	records[model.Product]
	variants records[model.Variant]
}

func (p Products) All() []model.Product {
	return slices.DeleteFunc(p.records.All(), func(p model.Product) bool { return p.Removed })
}

func (p Products) Create(in model.ProductCreate) (out model.Product, e model.Event, err error) {
	w, done := p.begin()
	defer done()
	row := &model.Product{
		Name: cmp.Or(in.Name, fmt.Sprintf("New Formula %d", len(w.Products.Rows)+1)), BrandID: cmp.Or(in.BrandID, w.Brands.Rows[0].ID),
		DescriptionHTML: in.DescriptionHTML,
	}
	brand, known := table.Get(w.Brands, row.BrandID)
	if !known {
		return out, e, store.Unknown("CreateProduct", "brand", row.BrandID)
	}
	packs := in.Variants
	if len(packs) == 0 {
		packs = []model.VariantCreate{{}}
	}
	for _, pack := range packs {
		if err := check("CreateProduct", form.Status(&pack.Status)); err != nil {
			return out, e, err
		}
	}
	row.ID = w.NewID("product")
	for i, pack := range packs {
		v := w.NewVariant(row.ID, brand.Prefix, i == 0, pack)
		row.VariantIDs = append(row.VariantIDs, v.ID)
	}
	w.PutProduct(row)
	w.RefreshBrand(row.BrandID)
	out, e = store.Detached(*row), p.emit(model.EventProductCreated, "", row.ID, p.unwrapped("product", view.Product(w, row, nil, p.Behaviors.Get())))
	return out, e, nil
}

func (p Products) Update(productID string, in model.ProductUpdate) (model.Product, model.Event, error) {
	return p.changeProduct("UpdateProduct", productID, model.EventProductUpdated, func(row *model.Product) error {
		in.Apply(row)
		if row.Name == "" {
			return store.Rejected("UpdateProduct", model.ErrValidation, "a product needs a name")
		}
		return nil
	})
}

func (p Products) Describe(productID, html string) (model.Product, model.Event, error) {
	return p.changeProduct("DescribeProduct", productID, model.EventProductDescriptionUpdated, func(row *model.Product) error {
		row.DescriptionHTML = html
		return nil
	})
}

func (p Products) changeProduct(action, productID, kind string, change func(*model.Product) error) (model.Product, model.Event, error) {
	return p.revise(action, productID, func(_ *store.World, row *model.Product) error {
		if row.Removed {
			return store.Unknown(action, "product", productID)
		}
		return change(row)
	}, func(w *store.World, row *model.Product) (e model.Event) {
		w.PutProduct(row)
		if w.RefreshBrand(row.BrandID); kind != "" {
			e = p.emit(kind, "", row.ID, view.ProductData(w, row, p.Behaviors.Get()))
		}
		return e
	})
}

func (p Products) Remove(productID string) error {
	_, _, err := p.changeProduct("RemoveProduct", productID, "", func(row *model.Product) error { row.Removed = true; return nil })
	return err
}

func (p Products) UpdateVariant(variantID string, in model.VariantUpdate) (model.Variant, model.Event, error) {
	return p.variants.revise("UpdateVariant", variantID, func(w *store.World, row *model.Variant) error {
		if _, known := w.Variant(variantID); !known { // its product was removed
			return store.Unknown("UpdateVariant", "variant", variantID)
		}
		in.Apply(row)
		return variantFits(row)
	}, func(w *store.World, row *model.Variant) model.Event {
		product, _ := table.Get(w.Products, row.ProductID)
		w.RefreshBrand(product.BrandID)
		return p.emit(model.EventProductUpdated, "", product.ID, view.ProductData(w, product, p.Behaviors.Get()))
	})
}

// variantFits checks a changed variant. Its status may be empty, which is null.
func variantFits(v *model.Variant) error {
	switch {
	case v.MSRP < 0:
		return store.Rejected("UpdateVariant", model.ErrValidation, "%s is not a price", v.MSRP)
	case v.Units < 0:
		return store.Rejected("UpdateVariant", model.ErrValidation, "%d is not a number of units", v.Units)
	}
	return check("UpdateVariant", form.Status(&v.Status))
}
