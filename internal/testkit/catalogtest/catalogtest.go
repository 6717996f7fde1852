// Package catalogtest generates catalogs of any size, and search queries with the product that
// each must find.
package catalogtest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
)

var (
	substances = strings.Fields(`Magnesium Zinc Selenium Iron Calcium Potassium Iodine Chromium Copper Manganese Ashwagandha Rhodiola
		Berberine Curcumin Turmeric Quercetin Resveratrol Melatonin Taurine Glycine Glutamine Carnitine Creatine Lysine Arginine
		Tyrosine Theanine GABA Inositol Choline Biotin Folate Niacin Riboflavin Thiamine Pyridoxine Cobalamin Collagen Elderberry
		Echinacea Ginseng Ginkgo Valerian Chamomile Lavender Peppermint Ginger Boswellia Bromelain Papain Lactobacillus
		Bifidobacterium Saccharomyces Spirulina Chlorella Astragalus Reishi Cordyceps Shiitake Maitake Silymarin Dandelion Nettle`)
	forms = strings.Fields(`Glycinate Citrate Picolinate Malate Threonate Taurate Chelate Complex Extract Balance Support Defense
		Forte Liposomal Sustained Buffered Essentials Synergy Advanced Concentrate Phytosome Active Gentle Daily Restore Renewal`)
	shapes    = strings.Fields("capsules tablets powder liquid gummies softgels lozenges drops packets strips")
	syllables = strings.Fields("al ber cor dan el fen gor hal ist jun kel lor mar nor oak pel quin ros sol tan ul ver wil yar zen")
)

// Products returns n products with different names. The result depends only on n. Most names
// consist of a substance, a form, a product line, an amount and a shape. A third of them also
// begin with a second substance. Each product has one of n/100 brands (at least 1) and two
// sizes.
func Products(n int) []catalogsync.Record {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	any := func(of []string) string { return of[random.IntN(len(of))] }
	brands := make([]catalog.BrandSummary, max(1, n/100))
	for i := range brands {
		brands[i] = catalog.BrandSummary{
			ID: fmt.Sprintf("brand-%d", i), Name: title(any(syllables) + any(syllables) + any(syllables) + " labs"), Prefix: fmt.Sprintf("%c%c%c", 'A'+i/676%26, 'A'+i/26%26, 'A'+i%26),
		}
	}
	lines := make([]string, max(50, n/50)) // made-up words, as manufacturers use them
	for i := range lines {
		lines[i] = title(any(syllables) + any(syllables) + any(syllables) + any(syllables))
	}
	entries, taken := make([]catalogsync.Record, 0, n), map[string]bool{}
	for i := 0; len(entries) < n; i++ {
		name := strings.Join([]string{any(substances), any(forms), any(lines), fmt.Sprint(50 * (1 + random.IntN(40))), any(shapes)}, " ")
		if random.IntN(3) == 0 {
			name = any(substances) + " " + name
		}
		if taken[name] {
			continue
		}
		taken[name] = true
		brand := brands[random.IntN(len(brands))]
		p := catalog.Product{ID: fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i), Name: name, Status: catalog.StatusAvailable, Brand: brand}
		for _, size := range []int{60, 120} {
			p.Variants = append(p.Variants, catalog.Variant{
				ID: fmt.Sprintf("%08x-0000-4000-9000-%012x", i, size), SKU: fmt.Sprintf("%s-%06d-%d", brand.Prefix, i, size),
				UPC: fmt.Sprintf("0%011d", i*1_000+size), Status: catalog.StatusAvailable, Primary: size == 60,
			})
		}
		entries = append(entries, catalogsync.Record{
			Product: p, Attributes: catalogsync.Attributes{
				IngredientIDs: []string{fmt.Sprintf("ingredient-%d", i%len(substances))}, AllergenIDs: []string{fmt.Sprintf("allergen-%d", i%7)},
			},
		})
	}
	return entries
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
