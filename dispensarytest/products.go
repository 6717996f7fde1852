package dispensarytest

import (
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// brandRef is the brand inside a product.
type brandRef struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Prefix string `json:"prefix"`
}

// productItem is a product in list and search responses.
type productItem struct {
	ID             string       `json:"id"`
	Name           string       `json:"name"`
	Status         string       `json:"status"`
	VariantCount   int          `json:"variant_count"`
	Brand          brandRef     `json:"brand"`
	PrimaryVariant *variantView `json:"primary_variant"`
}

// productView is a product in the single-product response.
type productView struct {
	ID              string           `json:"id"`
	Name            string           `json:"name"`
	Status          string           `json:"status"`
	VariantCount    int              `json:"variant_count"`
	Brand           brandRef         `json:"brand"`
	DescriptionHTML *string          `json:"description_html"`
	Variants        []variantView    `json:"variants"`
	Dosage          eventDosageView  `json:"dosage"`
	CustomDosage    *eventDosageView `json:"custom_dosage"`
}

// variantView is a variant, with its product in the single-variant response.
type variantView struct {
	ID            string      `json:"id"`
	SKU           string      `json:"sku"`
	Units         *int        `json:"units"`
	UnitOfMeasure *string     `json:"unit_of_measure"`
	UPC           *string     `json:"upc"`
	MSRP          Cents       `json:"msrp"`
	SupplierSKU   *string     `json:"supplier_sku"`
	Status        *string     `json:"status"`
	Availability  string      `json:"availability"`
	Primary       bool        `json:"primary"`
	ImageSmall    string      `json:"image_url_small"`
	ImageMedium   string      `json:"image_url_medium"`
	ImageLarge    string      `json:"image_url_large"`
	Product       *productRef `json:"product,omitempty"`
}

type productRef struct {
	ID    string   `json:"id"`
	Name  string   `json:"name"`
	Brand brandRef `json:"brand"`
}

// eventDosageView is a dosage as products and event data spell it.
type eventDosageView struct {
	Amount         string  `json:"recommended_amount"`
	Frequency      string  `json:"recommended_frequency"`
	Duration       *string `json:"recommended_duration"`
	Format         string  `json:"format"`
	AdditionalInfo string  `json:"additional_info"`
}

func viewEventDosage(d Dosage) eventDosageView {
	return eventDosageView{
		Amount: d.Amount, Frequency: d.Frequency, Duration: orNull(d.Duration),
		Format: d.Format, AdditionalInfo: d.AdditionalInfo,
	}
}

func (w *world) brandRef(id string) brandRef {
	b, ok := w.brands.Get(id)
	if !ok {
		return brandRef{}
	}
	return brandRef{ID: b.ID, Name: b.Name, Prefix: b.Prefix}
}

// productItems is how products are shown in list and search responses.
func (w *world) productItems(reads *readings) func(*Product) productItem {
	return func(p *Product) productItem { return w.viewProductItem(p, reads) }
}

func (w *world) viewProductItem(p *Product, reads *readings) productItem {
	item := productItem{
		ID: p.ID, Name: p.Name, Status: w.productStatus(p, reads),
		VariantCount: len(p.VariantIDs), Brand: w.brandRef(p.BrandID),
	}
	if len(p.VariantIDs) > 0 {
		if v, ok := w.variants.Get(p.VariantIDs[0]); ok {
			item.PrimaryVariant = new(viewVariant(v))
		}
	}
	return item
}

func (w *world) viewProduct(p *Product, custom *Dosage, reads *readings) productView {
	view := productView{
		ID: p.ID, Name: p.Name, Status: w.productStatus(p, reads), VariantCount: len(p.VariantIDs),
		Brand: w.brandRef(p.BrandID), DescriptionHTML: orNull(p.DescriptionHTML),
		Variants: []variantView{}, Dosage: viewEventDosage(p.Dosage),
	}
	for _, v := range w.productVariants(p) {
		view.Variants = append(view.Variants, viewVariant(v))
	}
	if custom != nil {
		view.CustomDosage = new(viewEventDosage(*custom))
	}
	return view
}

func viewVariant(v *Variant) variantView {
	const images = "https://images.dispensary.example/variants/"
	view := variantView{
		ID: v.ID, SKU: v.SKU, UnitOfMeasure: orNull(v.UnitOfMeasure), UPC: orNull(v.UPC), MSRP: v.MSRP,
		SupplierSKU: orNull(v.SupplierSKU), Status: orNull(v.Status), Availability: "n/a", Primary: v.Primary,
		ImageSmall:  images + v.SKU + "/small.png",
		ImageMedium: images + v.SKU + "/medium.png",
		ImageLarge:  images + v.SKU + "/large.png",
	}
	if v.Units > 0 {
		view.Units = new(v.Units)
	}
	if v.Status == VariantAvailable {
		view.Availability = "In Stock"
	}
	return view
}

func listProducts(c *call, w *world) (reply, error) {
	return listOf(c, w.products.Everything(), w.productItems(c.reads)), nil
}

// getProduct shows the custom dosage of the practitioner who is named, or of the one
// whose token it is. The token of a clinic has none.
func getProduct(c *call, w *world) (reply, error) {
	p, known := w.products.Get(c.arg())
	if !known {
		return reply{}, notFound()
	}
	practitioner := c.params.get("practitioner_id")
	if practitioner == "" {
		practitioner = c.practitionerID()
	} else if _, known := w.practitionerOf(c.clinicID(), practitioner); !known {
		return reply{}, invalid("practitioner_id must exist") // the status is an assumption
	}
	var custom *Dosage
	if d, set := w.customDosages.Get(customDosageID(practitioner, p.ID)); set {
		custom = &d.dosage
	}
	return ok(w.viewProduct(p, custom, c.reads)), nil
}

// searchProducts matches the query with names, brands and SKUs. Each array
// filter keeps products that have all of its values: an assumption.
func searchProducts(c *call, w *world) (reply, error) {
	index := &w.productSearch
	found := w.openTo(c.clinicID())
	if brand := c.params.get("brand_id"); brand != "" {
		found = found.And(index.Having(table.Facet{Kind: facetBrand, ID: brand}))
	}
	for filter, kind := range productFilters {
		found = c.filtered(index, found, kind, c.params[filter])
	}
	found = index.Find(found, strings.Fields(strings.ToLower(c.params.get("query"))))
	return listOf(c, w.products.List(found), w.productItems(c.reads)), nil
}

var productFilters = map[string]string{
	"allergen_ids[]": facetAllergen, "ingredient_ids[]": facetIngredient,
	"supplement_type_ids[]": facetType, "third_party_certification_ids[]": facetCertification,
}

// openTo finds the products of the brands that a clinic can order from.
func (w *world) openTo(clinicID string) *table.RowSet {
	found := w.productSearch.Having(table.Facet{Kind: facetOpen})
	for _, b := range w.brands.Where(func(b *Brand) bool { return b.Restricted && b.permits(clinicID) }) {
		found = found.Or(w.productSearch.Having(table.Facet{Kind: facetBrand, ID: b.ID}))
	}
	return found
}

// filtered narrows what was found by the values of a filter.
func (c *call) filtered(index *table.Search, found *table.RowSet, kind string, ids []string) *table.RowSet {
	matching := &table.RowSet{}
	for i, id := range ids {
		switch rows := index.Having(table.Facet{Kind: kind, ID: id}); {
		case i == 0:
			matching = rows
		case c.reads.anyFilter:
			matching = matching.Or(rows)
		default:
			matching = matching.And(rows)
		}
	}
	if len(ids) == 0 {
		return found
	}
	return found.And(matching)
}

func getVariant(c *call, w *world) (reply, error) {
	return one(&w.variants, c.arg(), func(v *Variant) variantView {
		view := viewVariant(v)
		if p, known := w.products.Get(v.ProductID); known {
			view.Product = &productRef{ID: p.ID, Name: p.Name, Brand: w.brandRef(p.BrandID)}
		}
		return view
	})
}
