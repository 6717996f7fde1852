package view

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// brandRef is the brand inside a product.
type brandRef struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Prefix string `json:"prefix"`
}

// productItem is a product in list and search responses.
type productItem struct {
	productBase
	PrimaryVariant *VariantView `json:"primary_variant"`
}

type productBase struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Status       string   `json:"status"`
	VariantCount int      `json:"variant_count"`
	Brand        brandRef `json:"brand"`
}

// productView is a product in the single-product response.
type productView struct {
	productBase
	DescriptionHTML *string          `json:"description_html"`
	Variants        []VariantView    `json:"variants"`
	Dosage          EventDosageView  `json:"dosage"`
	CustomDosage    *EventDosageView `json:"custom_dosage"`
}

// VariantView is a variant, with its product in the single-variant response.
type VariantView struct {
	ID            string      `json:"id"`
	SKU           string      `json:"sku"`
	Units         *int        `json:"units"`
	UnitOfMeasure *string     `json:"unit_of_measure"`
	UPC           *string     `json:"upc"`
	MSRP          model.Cents `json:"msrp"`
	SupplierSKU   *string     `json:"supplier_sku"`
	Status        *string     `json:"status"`
	Availability  string      `json:"availability"`
	Primary       bool        `json:"primary"`
	ImageSmall    string      `json:"image_url_small"`
	ImageMedium   string      `json:"image_url_medium"`
	ImageLarge    string      `json:"image_url_large"`
	Product       *ProductRef `json:"product,omitempty"`
}

type ProductRef struct {
	ID    string   `json:"id"`
	Name  string   `json:"name"`
	Brand brandRef `json:"brand"`
}

// EventDosageView is a dosage with the field names of products and event data.
type EventDosageView struct {
	Amount         string  `json:"recommended_amount"`
	Frequency      string  `json:"recommended_frequency"`
	Duration       *string `json:"recommended_duration"`
	Format         string  `json:"format"`
	AdditionalInfo string  `json:"additional_info"`
}

func EventDosage(d model.Dosage) EventDosageView { return EventDosageView(Dosage(d)) }

func BrandOf(w *store.World, id string) brandRef {
	if b, known := w.Brand(id); known {
		return brandRef{ID: b.ID, Name: b.Name, Prefix: b.Prefix}
	}
	return brandRef{}
}

func baseOf(w *store.World, p *model.Product, behaviors *rules.Set) productBase {
	return productBase{p.ID, p.Name, w.ProductStatus(p, behaviors), len(p.VariantIDs), BrandOf(w, p.BrandID)}
}

// ProductItems returns the view of products in list and search responses.
func ProductItems(w *store.World, behaviors *rules.Set) func(*model.Product) productItem {
	return func(p *model.Product) productItem { return ProductItem(w, p, behaviors) }
}

func ProductItem(w *store.World, p *model.Product, behaviors *rules.Set) productItem {
	item := productItem{productBase: baseOf(w, p, behaviors)}
	if variants := w.ProductVariants(p); len(variants) > 0 {
		item.PrimaryVariant = new(Variant(variants[0]))
	}
	return item
}

func Product(w *store.World, p *model.Product, custom *model.Dosage, behaviors *rules.Set) productView {
	view := productView{
		productBase: baseOf(w, p, behaviors), DescriptionHTML: NullText(p.DescriptionHTML), Variants: table.Map(w.ProductVariants(p), Variant), Dosage: EventDosage(p.Dosage),
	}
	if custom != nil {
		view.CustomDosage = new(EventDosage(*custom))
	}
	return view
}

func Variant(v *model.Variant) VariantView {
	const images = "https://images.dispensary.example/variants/"
	view := VariantView{
		ID: v.ID, SKU: v.SKU, UnitOfMeasure: NullText(v.UnitOfMeasure), UPC: NullText(v.UPC), MSRP: v.MSRP,
		SupplierSKU: NullText(v.SupplierSKU), Status: NullText(v.Status), Availability: "n/a", Primary: v.Primary,
		ImageSmall:  images + v.SKU + "/small.png",
		ImageMedium: images + v.SKU + "/medium.png",
		ImageLarge:  images + v.SKU + "/large.png",
	}
	if v.Units > 0 {
		view.Units = new(v.Units)
	}
	if v.Status == model.VariantAvailable {
		view.Availability = "In Stock"
	}
	return view
}

// ProductData is the event data of a product, wrapped.
func ProductData(w *store.World, p *model.Product, behaviors *rules.Set) any {
	return map[string]productView{"product": Product(w, p, nil, behaviors)}
}
