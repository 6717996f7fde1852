package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// seedProduct is a product of the default catalog. Its numbers are indexes into the name lists
// of the seed.
type seedProduct struct {
	name        string
	brand       int
	kind        int // supplement type
	category    int
	ingredients string      // separated by commas
	format      string      // of the dosage (its plural is the unit of measure)
	units       []int       // one variant each
	price       model.Cents // of the first variant
	status      string      // of all variants, or empty for available
}

// noStatus marks variants with the status null.
const noStatus = "null"

var seedProducts = []seedProduct{
	{"Acetyl-L-Carnitine 500", 2, 0, 2, "Acetyl-L-Carnitine", "capsule", []int{60, 120}, 2850, ""},
	{"Adaptogen Balance", 1, 1, 6, "Ashwagandha,Rhodiola,Holy Basil", "capsule", []int{60}, 3195, ""},
	{"Ashwagandha Root", 1, 1, 6, "Ashwagandha", "capsule", []int{60, 120}, 2290, ""},
	{"B-Complex Active", 3, 7, 2, "Vitamin B6,Vitamin B12,Folate", "capsule", []int{60, 180}, 1880, ""},
	{"Berberine Plus", 6, 1, 4, "Berberine", "capsule", []int{60}, 3475, ""},
	{"Bone Foundation", 4, 4, 0, "Calcium,Vitamin D3,Vitamin K2", "tablet", []int{90, 180}, 2640, ""},
	{"Calm Magnesium Powder", 5, 4, 6, "Magnesium", "powder", []int{30}, 2399, ""},
	{"Chamomile Evening Drops", 1, 1, 7, "Chamomile", "drop", []int{30}, 1525, ""},
	{"Children's Chewable Multi", 3, 7, 1, "Vitamin A,Vitamin C,Vitamin D3", "chewable", []int{60, 120}, 1750, ""},
	{"Coenzyme Q10 100", 2, 7, 4, "Coenzyme Q10", "gel", []int{30, 60}, 3660, ""},
	{"Collagen Peptides", 4, 6, 0, "Collagen", "powder", []int{28, 56}, 4210, ""},
	{"Curcumin Phytosome", 6, 1, 0, "Turmeric", "capsule", []int{60, 120}, 4450, ""},
	{"Daily Greens", 5, 1, 1, "Spirulina,Chlorella", "powder", []int{30}, 3999, model.VariantBackordered},
	{"Digestive Enzymes Ultra", 0, 2, 3, "Amylase,Lipase,Protease", "capsule", []int{90, 180}, 3325, ""},
	{"Echinacea Tincture", 1, 1, 5, "Echinacea", "liquid", []int{50}, 1690, ""},
	{"Elderberry Lozenges", 1, 1, 5, "Elderberry,Zinc", "lozenge", []int{24}, 1245, ""},
	{"Electrolyte Packets", 5, 4, 2, "Magnesium,Potassium,Sodium", "packet", []int{20, 40}, 2150, ""},
	{"Fish Oil Concentrate", 5, 3, 4, "EPA,DHA", "gel", []int{60, 120, 240}, 2780, ""},
	{"Folate 800", 3, 7, 1, "Folate", "capsule", []int{90}, 1399, ""},
	{"GABA Calm", 2, 0, 6, "GABA,L-Theanine", "chewable", []int{60}, 2105, ""},
	{"Ginger & Peppermint", 1, 2, 3, "Ginger,Peppermint", "gel", []int{60}, 1830, ""},
	{"Glucosamine Move", 4, 0, 0, "Glucosamine,MSM", "tablet", []int{120}, 2975, ""},
	{"Glutamine Powder", 0, 0, 3, "L-Glutamine", "powder", []int{42, 84}, 3120, ""},
	{"Iron Gentle", 3, 4, 2, "Iron,Vitamin C", "capsule", []int{90}, 1580, ""},
	{"L-Theanine 200", 2, 0, 6, "L-Theanine", "capsule", []int{60, 120}, 2360, ""},
	{"Lavender Night Gels", 1, 1, 7, "Lavender", "gel", []int{30}, 1975, model.VariantUnavailable},
	{"Liver Support", 6, 1, 1, "Milk Thistle,Dandelion", "capsule", []int{90}, 2890, ""},
	{"Magnesium Glycinate", 5, 4, 7, "Magnesium", "capsule", []int{90, 180}, 2260, ""},
	{"Melatonin Strips", 6, 0, 7, "Melatonin", "strip", []int{30}, 1495, ""},
	{"Mushroom Defense", 1, 1, 5, "Reishi,Turkey Tail", "capsule", []int{60}, 3880, ""},
	{"N-Acetyl Cysteine 600", 2, 0, 5, "N-Acetyl Cysteine", "capsule", []int{60, 120}, 2140, ""},
	{"Omega-3 Vegan Algae", 0, 3, 4, "DHA,EPA", "gel", []int{60}, 3590, ""},
	{"Plant Protein Vanilla", 4, 6, 1, "Pea Protein", "powder", []int{15, 30}, 4799, ""},
	{"Prenatal Complete", 3, 7, 1, "Folate,Iron,Iodine", "tablet", []int{90, 180}, 3450, ""},
	{"Probiotic 50 Billion", 0, 5, 3, "Lactobacillus,Bifidobacterium", "capsule", []int{30, 60}, 4625, ""},
	{"Probiotic Kids", 0, 5, 3, "Lactobacillus", "chewable", []int{30}, 2575, ""},
	{"Quercetin & Bromelain", 6, 1, 5, "Quercetin,Bromelain", "capsule", []int{60}, 3265, ""},
	{"Research Blend Q", 7, 1, 1, "Quercetin,Resveratrol", "capsule", []int{60}, 8900, noStatus},
	{"Selenium 200", 2, 4, 5, "Selenium", "capsule", []int{90}, 1190, model.VariantDiscontinued},
	{"Sleep Formula", 6, 0, 7, "GABA,Melatonin,L-Theanine", "capsule", []int{60}, 2999, ""},
	{"Vitamin C Buffered", 3, 7, 5, "Vitamin C", "tablet", []int{90, 180}, 1725, ""},
	{"Vitamin D3 + K2 Drops", 5, 7, 0, "Vitamin D3,Vitamin K2", "drop", []int{30}, 2195, ""},
	{"Vitamin D3 5000", 3, 7, 5, "Vitamin D3", "gel", []int{60, 120}, 1560, ""},
	{"Zinc Picolinate", 2, 4, 5, "Zinc", "capsule", []int{60, 180}, 1320, ""},
}

// ingredientNames returns all ingredients of the catalog, sorted.
func ingredientNames() []string {
	var names []string
	for _, p := range seedProducts {
		names = append(names, strings.Split(p.ingredients, ",")...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (w *World) seedCatalog() {
	byName := make(map[string]string)
	for t := range table.All(w.Ingredients) {
		byName[t.Name] = t.ID
	}
	for i, line := range seedProducts {
		brand := table.At(w.Brands, line.brand)
		p := &model.Product{
			ID: w.NewID("product"), Name: line.name, BrandID: brand.ID, SupplementTypeID: table.At(w.SupplementTypes, line.kind).ID,
			DescriptionHTML:  fmt.Sprintf("<p>%s from %s, with %s.</p>", line.name, brand.Name, strings.ReplaceAll(line.ingredients, ",", ", ")),
			Dosage:           line.dosage(),
			CategoryIDs:      []string{table.At(w.Categories, line.category).ID},
			AllergenIDs:      pick(w.Allergens, i, 3),
			CertificationIDs: pick(w.Certifications, i, 2),
		}
		for name := range strings.SplitSeq(line.ingredients, ",") {
			p.IngredientIDs = append(p.IngredientIDs, byName[name])
		}
		for n, units := range line.units {
			v := w.NewVariant(p.ID, brand.Prefix, n == 0, model.VariantCreate{
				Units: units, UnitOfMeasure: line.format + "s", Status: line.status,
				// Bigger packs cost less per unit.
				MSRP: line.price * model.Cents(10+9*(units-line.units[0])/line.units[0]) / 10,
			})
			if n > 0 {
				leaveOut(v, len(w.Variants.Rows))
			}
			p.VariantIDs = append(p.VariantIDs, v.ID)
		}
		if slices.Contains([]string{model.VariantDiscontinued, model.VariantUnavailable, noStatus}, line.status) {
			w.bare(p)
		}
		table.Put(&w.Products, p.ID, p)
	}
	for b := range table.All(w.Brands) {
		w.RefreshBrand(b.ID)
	}
}

// leaveOut clears one of the five nullable values of a variant, a different one for each n.
// Primary variants of products on sale keep theirs.
func leaveOut(v *model.Variant, n int) {
	switch n % 5 {
	case 0:
		v.Units = 0
	case 1:
		v.UnitOfMeasure = ""
	case 2:
		v.UPC = ""
	case 3:
		v.SupplierSKU = ""
	default:
		v.Status = ""
	}
}

// bare clears all nullable values of a product that is not on sale, including its description,
// so that lists also contain nulls.
func (w *World) bare(p *model.Product) {
	p.DescriptionHTML = ""
	for _, v := range w.ProductVariants(p) {
		v.Units, v.UnitOfMeasure, v.UPC, v.SupplierSKU = 0, "", "", ""
		if v.Status == noStatus {
			v.Status = ""
		}
	}
}

func (p seedProduct) dosage() model.Dosage {
	d := model.Dosage{Amount: "1", Frequency: "once per day", Format: p.format, AdditionalInfo: "Take with food."}
	switch {
	case p.units[0] >= 90:
		d.Amount, d.Frequency, d.Duration = "1-2", "twice per day", "30 days"
	case p.category == 7:
		d.Frequency, d.Duration = "every night", "as needed"
	}
	return d
}

// pick returns about every n-th row, in a different pattern for each product.
func pick(rows table.Table[*Term], at, n int) []string {
	var ids []string
	for i := range len(rows.Rows) {
		if (i+at)%n == 0 {
			ids = append(ids, table.At(rows, i).ID)
		}
	}
	return ids
}
