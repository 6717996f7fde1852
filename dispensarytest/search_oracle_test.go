package dispensarytest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// mentions says that a text holds all words of a query, whatever their case.
func mentions(text, query string) bool {
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		if !strings.Contains(strings.ToLower(text), word) {
			return false
		}
	}
	return true
}

// someQueries are parts of texts, one or two words of them.
func someQueries(dice *rand.Rand, texts []string) (queries []string) {
	piece := func() string {
		text := texts[dice.IntN(len(texts))]
		from := dice.IntN(len(text))
		return strings.ToValidUTF8(text[from:from+min(len(text)-from, 1+dice.IntN(9))], "")
	}
	for range 100 {
		queries = append(queries, piece(), strings.ToUpper(piece()), piece()+" "+piece())
	}
	return append(queries, "", " ", "zzyzx", "\u00e9", "a zzyzx", "i\u0307")
}

func TestPatientSearchAgainstAWalk(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 130, 600} { // looked through, just indexed, and more
		b := start(t, WithInMemory(), WithClock(frozen()), WithWorldSize(model.WorldSize{Clinics: 2, Patients: size}))
		b.tellPatientsApart(b.fake)
		fork := *b
		fork.fake = b.fake.Fork(t)
		for n, p := range b.fake.Patients.All() {
			if n%3 == 0 {
				_, _, err := b.fake.Patients.Edit(p.ID, model.PatientChange{LastName: new(fmt.Sprintf("Moved\u00c9%d Van der %d", n, n%7))})
				require.NoError(t, err)
			}
			if n%5 == 0 {
				_, _, err := fork.fake.Patients.Edit(p.ID, model.PatientChange{FirstName: new("\u0130smail")})
				require.NoError(t, err)
			}
		}
		b.tellPatientsApart(b.fake)
		b.tellPatientsApart(fork.fake)
	}
}

func (b *browser) tellPatientsApart(fake *Server) {
	on := *b
	on.fake = fake
	clinic, patients := fake.Users()[0].ClinicID, fake.Patients.All()
	var texts []string
	for _, p := range patients {
		texts = append(texts, p.FirstName+" "+p.LastName, p.Email)
	}
	asks(&on, oracle[model.Patient]{
		rows: patients, id: func(p model.Patient) string { return p.ID },
		keep: func(p model.Patient, q url.Values) bool {
			return p.ClinicID == clinic && mentions(p.FirstName+"\n"+p.LastName+"\n"+p.Email, q.Get("query"))
		},
	}, "/clinic/search/patients", "patients", map[string][]string{"query": someQueries(rand.New(rand.NewPCG(1, uint64(len(patients)))), texts)})
}

func TestProductSearchAgainstAWalk(t *testing.T) {
	t.Parallel()
	for _, filters := range []string{"all", "any"} {
		for _, size := range []int{0, 600} {
			b := start(t, WithInMemory(), WithBehavior("array-filters="+Behavior(filters)), WithWorldSize(model.WorldSize{Products: size}))
			for n, p := range b.fake.Products.All() {
				if n%4 == 0 {
					_, _, err := b.fake.Products.Update(p.ID, model.ProductChange{Name: new(fmt.Sprint("Renamed ", n))})
					require.NoError(t, err)
				}
				if n%30 == 0 {
					_, _, err := b.fake.Products.Create(model.NewProduct{BrandID: b.fake.store.World.Brands.At(n % 8).ID})
					require.NoError(t, err)
				}
			}
			b.askForProducts(filters == "any")
		}
	}
}

func (b *browser) askForProducts(anyValue bool) {
	w, products := b.fake.store.World, b.fake.Products.All()
	text := func(p model.Product) string {
		brand, _ := w.Brands.Get(p.BrandID)
		text := p.Name + "\n" + brand.Name
		for _, v := range w.ProductVariants(&p) {
			text += "\n" + v.SKU
		}
		return text
	}
	has := func(wanted, ids []string) bool {
		found := 0
		for _, id := range wanted {
			if slices.Contains(ids, id) {
				found++
			}
		}
		return found == len(wanted) || anyValue && found > 0
	}
	var texts, brands []string
	for _, p := range products {
		texts = append(texts, strings.ReplaceAll(text(p), "\n", " "))
	}
	for brand := range w.Brands.All() {
		brands = append(brands, brand.ID, "", "")
	}
	dice := rand.New(rand.NewPCG(3, uint64(len(products))))
	for range 120 {
		query := url.Values{"query": {someQueries(dice, texts)[dice.IntN(306)]}, "brand_id": {brands[dice.IntN(len(brands))]}}
		for filter, terms := range map[string]*table.Table[model.Term]{
			"allergen_ids[]": &w.Allergens, "ingredient_ids[]": &w.Ingredients, "supplement_type_ids[]": &w.SupplementTypes, "third_party_certification_ids[]": &w.Certifications,
		} {
			for range max(0, dice.IntN(6)-3) {
				query[filter] = append(query[filter], terms.At(dice.IntN(terms.Len())).ID)
			}
		}
		o := oracle[model.Product]{rows: products, id: func(p model.Product) string { return p.ID }, keep: func(p model.Product, q url.Values) bool {
			brand, _ := w.Brands.Get(p.BrandID)
			return !brand.Restricted && (q.Get("brand_id") == "" || q.Get("brand_id") == p.BrandID) && mentions(text(p), q.Get("query")) &&
				has(q["allergen_ids[]"], p.AllergenIDs) && has(q["ingredient_ids[]"], p.IngredientIDs) &&
				has(q["supplement_type_ids[]"], []string{p.SupplementTypeID}) && has(q["third_party_certification_ids[]"], p.CertificationIDs)
		}}
		ids, total := o.page(query, 2, 7)
		got := b.get("/catalog/search/products?" + query.Encode() + "&page[number]=2&page[size]=7")
		require.Equal(b.t, float64(total), got.ok(200, "meta", "total_count"), query)
		require.Equal(b.t, ids, got.column("products", "id"), query)
	}
}

func TestSimilarAndCategoryProductsAgainstAWalk(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithWorldSize(model.WorldSize{Products: 700}))
	for range 3 {
		_, _, err := b.fake.Products.Create(model.NewProduct{})
		require.NoError(t, err)
	}
	products := b.fake.Products.All()
	for n := 0; n < len(products); n += 13 {
		self := products[n]
		like := slices.DeleteFunc(slices.Clone(products), func(p model.Product) bool { return p.ID == self.ID || store.Shares(&self, &p) == 0 })
		slices.SortStableFunc(like, func(a, b model.Product) int { return cmp.Compare(store.Shares(&self, &b), store.Shares(&self, &a)) })
		want := []any{}
		for _, p := range like[:min(10, len(like))] {
			want = append(want, p.ID)
		}
		assert.Equal(t, want, b.get("/catalog/products/"+self.ID+"/similar").column("products", "id"))
	}
	for category := range b.fake.store.World.Categories.All() {
		asks(b, oracle[model.Product]{
			rows: products, id: func(p model.Product) string { return p.ID },
			keep: func(p model.Product, _ url.Values) bool { return slices.Contains(p.CategoryIDs, category.ID) },
		}, "/clinic/categories/"+category.ID+"/products", "products", nil)
	}
}
