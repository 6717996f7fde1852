package dispensarytest

import (
	"fmt"
	"slices"
)

// NewProduct is a product that comes into the catalog. What is empty is made
// up: a name, the first brand, one pack.
type NewProduct struct {
	Name            string
	BrandID         string
	DescriptionHTML string
	Variants        []NewVariant
}

// NewVariant is a pack of a new product; empty, it holds 60 capsules for 19.99
// and is available.
type NewVariant struct {
	Units         int
	UnitOfMeasure string
	MSRP          Cents
	Status        string
}

// CreateProduct brings a product into the catalog: product.created, whose data
// is not wrapped.
func (p *Platform) CreateProduct(in NewProduct) (out Product, e Event, err error) {
	err = p.act(func(w *world) error {
		row := &Product{
			Name: or(in.Name, fmt.Sprintf("New Formula %d", w.products.Len()+1)), BrandID: or(in.BrandID, w.brands.At(0).ID),
			DescriptionHTML: in.DescriptionHTML,
		}
		brand, known := w.brands.Get(row.BrandID)
		if !known {
			return unknown("CreateProduct", "brand", row.BrandID)
		}
		packs := in.Variants
		if len(packs) == 0 {
			packs = []NewVariant{{}}
		}
		for _, pack := range packs {
			if err := statusFits("CreateProduct", or(pack.Status, VariantAvailable)); err != nil {
				return err
			}
		}
		row.ID = w.newID("product")
		for i, pack := range packs {
			v := w.newVariant(row.ID, brand.Prefix, i == 0, pack)
			row.VariantIDs = append(row.VariantIDs, v.ID)
		}
		w.putProduct(row)
		w.refreshBrand(row.BrandID)
		out, e = detached(*row), p.srv.emit(ProductCreated, "", row.ID, p.srv.unwrapped("product", w.viewProduct(row, nil, p.srv.reads())))
		return nil
	})
	return out, e, err
}

// newVariant stores a pack. Its SKU and code follow from its number.
func (w *world) newVariant(productID, prefix string, primary bool, in NewVariant) *Variant {
	v := &Variant{
		ID: w.newID("variant"), ProductID: productID, Primary: primary, Units: in.Units, MSRP: in.MSRP,
		UnitOfMeasure: or(in.UnitOfMeasure, "capsules"), Status: or(in.Status, VariantAvailable),
	}
	if v.Units == 0 {
		v.Units = 60
	}
	if v.MSRP == 0 {
		v.MSRP = 1999
	}
	n := w.numbers["variant"]
	v.SKU = fmt.Sprintf("%s-%04d-%d", prefix, 1000+n, v.Units)
	v.SupplierSKU = fmt.Sprintf("%s%d", prefix, 5000+n)
	v.UPC = fmt.Sprintf("8500%08d", 10_000+n*37)
	w.variants.Put(v.ID, v)
	return v
}

// ProductChange is what changes about a product; nil leaves a field as it is.
type ProductChange struct {
	Name   *string
	Dosage *Dosage
}

// UpdateProduct changes a product: product.updated.
func (p *Platform) UpdateProduct(productID string, in ProductChange) (Product, Event, error) {
	return p.changeProduct("UpdateProduct", productID, ProductUpdated, func(row *Product) error {
		set(&row.Name, in.Name)
		set(&row.Dosage, in.Dosage)
		if row.Name == "" {
			return refused("UpdateProduct", ErrInvalid, "a product needs a name")
		}
		return nil
	})
}

// DescribeProduct gives a product another description:
// product.description.updated.
func (p *Platform) DescribeProduct(productID, html string) (Product, Event, error) {
	return p.changeProduct("DescribeProduct", productID, ProductDescriptionUpdated, func(row *Product) error {
		row.DescriptionHTML = html
		return nil
	})
}

func (p *Platform) changeProduct(action, productID, kind string, change func(*Product) error) (out Product, e Event, err error) {
	err = p.act(func(w *world) error {
		old, known := w.products.Get(productID)
		if !known {
			return unknown(action, "product", productID)
		}
		row := *old
		if err := change(&row); err != nil {
			return err
		}
		w.putProduct(&row)
		out, e = detached(row), p.srv.emit(kind, "", row.ID, w.productData(&row, p.srv.reads()))
		return nil
	})
	return out, e, err
}

// VariantChange is what changes about a variant; nil leaves a field as it is.
type VariantChange struct {
	MSRP   *Cents
	Status *string
}

// UpdateVariant changes a pack of a product: product.updated.
func (p *Platform) UpdateVariant(variantID string, in VariantChange) (out Variant, e Event, err error) {
	err = p.act(func(w *world) error {
		old, known := w.variants.Get(variantID)
		if !known {
			return unknown("UpdateVariant", "variant", variantID)
		}
		row := *old
		set(&row.MSRP, in.MSRP)
		set(&row.Status, in.Status)
		if err := statusFits("UpdateVariant", row.Status); err != nil {
			return err
		}
		if row.MSRP < 0 {
			return refused("UpdateVariant", ErrInvalid, "%s is not a price", row.MSRP)
		}
		w.variants.Put(row.ID, &row)
		product, _ := w.products.Get(row.ProductID)
		w.refreshBrand(product.BrandID)
		out, e = detached(row), p.srv.emit(ProductUpdated, "", product.ID, w.productData(product, p.srv.reads()))
		return nil
	})
	return out, e, err
}

// productData is the event data of a product, wrapped.
func (w *world) productData(p *Product, reads *readings) any {
	return struct {
		Product productView `json:"product"`
	}{w.viewProduct(p, nil, reads)}
}

func statusFits(action, status string) error {
	known := []string{VariantAvailable, VariantBackordered, VariantDiscontinued, VariantUnavailable, VariantVendorBackorder}
	if !slices.Contains(known, status) {
		return refused(action, ErrInvalid, "%q is none of the variant statuses", status)
	}
	return nil
}
