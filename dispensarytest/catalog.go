package dispensarytest

import (
	"cmp"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// termView is an allergen, ingredient, supplement type or certification.
type termView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func viewTerm(t *Term) termView { return termView{ID: t.ID, Name: t.Name} }

func allergens(w *world) *table.Table[Term]       { return &w.allergens }
func ingredients(w *world) *table.Table[Term]     { return &w.ingredients }
func supplementTypes(w *world) *table.Table[Term] { return &w.supplementTypes }
func certifications(w *world) *table.Table[Term]  { return &w.certifications }

func listTerms(of func(*world) *table.Table[Term]) handler {
	return func(c *call, w *world) (reply, error) { return listOf(c, of(w).Everything(), viewTerm), nil }
}

func getTerm(of func(*world) *table.Table[Term]) handler {
	return func(c *call, w *world) (reply, error) { return one(of(w), c.arg(), viewTerm) }
}

// one answers with a single row of a table that belongs to no clinic.
func one[T, V any](rows *table.Table[T], id string, view func(*T) V) (reply, error) {
	row, known := rows.Get(id)
	if !known {
		return reply{}, notFound()
	}
	return ok(view(row)), nil
}

type practitionerTypeView struct {
	ID          string `json:"id"`
	Code        string `json:"code"`
	Description string `json:"description"`
}

func listPractitionerTypes(c *call, w *world) (reply, error) {
	return listOf(c, w.practitionerTypes.Everything(), func(t *PractitionerType) practitionerTypeView {
		return practitionerTypeView{ID: t.ID, Code: t.Code, Description: t.Description}
	}), nil
}

type brandView struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Prefix string `json:"prefix"`
	Status string `json:"status"`
}

func viewBrand(b *Brand) brandView {
	status := "unavailable"
	if b.Available {
		status = "available"
	}
	return brandView{ID: b.ID, Name: b.Name, Prefix: b.Prefix, Status: status}
}

// listBrands narrows the list only for "true"; other values ask for everything.
func listBrands(c *call, w *world) (reply, error) {
	available, err := c.params.oneOf("available", "true", "false")
	if err != nil {
		return reply{}, err
	}
	permitted, err := c.params.oneOf("clinic_permitted", "true", "false")
	if err != nil {
		return reply{}, err
	}
	return listOf(c, table.Rows(w.brands.Where(func(b *Brand) bool {
		return (available != "true" || b.Available) && (permitted != "true" || b.permits(c.clinicID()))
	})), viewBrand), nil
}

func getBrand(c *call, w *world) (reply, error) { return one(&w.brands, c.arg(), viewBrand) }

type categoryView struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	ProductCount *int   `json:"product_count,omitempty"` // single-category response only
}

func listCategories(c *call, w *world) (reply, error) {
	return listOf(c, table.Rows(w.categories.Where(func(k *Category) bool { return k.ClinicID == c.clinicID() })), func(k *Category) categoryView {
		return categoryView{ID: k.ID, Name: k.Name}
	}), nil
}

func getCategory(c *call, w *world) (reply, error) {
	k, known := w.categoryOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	return ok(categoryView{ID: k.ID, Name: k.Name, ProductCount: new(w.inCategory(k.ID).N)}), nil
}

func listCategoryProducts(c *call, w *world) (reply, error) {
	if _, known := w.categoryOf(c.clinicID(), c.arg()); !known {
		return reply{}, notFound()
	}
	return listOf(c, w.products.List(w.inCategory(c.arg())), w.productItems(c.reads)), nil
}

// categoryOf returns a category of the clinic; others are not known to it.
func (w *world) categoryOf(clinicID, id string) (*Category, bool) {
	k, known := w.categories.Get(id)
	return k, known && k.ClinicID == clinicID
}

func (w *world) inCategory(id string) *table.RowSet {
	return w.productSearch.Having(table.Facet{Kind: facetCategory, ID: id})
}

// maxSimilar is how many similar products there are at most.
const maxSimilar = 10

// listSimilarProducts curates by what a product is for and made of: the more it
// shares, the higher it stands. The real curation is not documented.
func listSimilarProducts(c *call, w *world) (reply, error) {
	self, known := w.products.Get(c.arg())
	if !known {
		return reply{}, notFound()
	}
	groups := w.alikeTo(self)
	type candidate struct{ score, number int }
	var best []candidate
	for i, g := range groups {
		if len(best) >= maxSimilar && g.score < groups[i-1].score {
			break
		}
		for _, n := range g.rows.Numbers(0, min(g.rows.N, maxSimilar+1)) {
			if n != w.products.Number(self.ID) {
				best = append(best, candidate{g.score, n})
			}
		}
	}
	slices.SortFunc(best, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.number, b.number))
	})
	var rows []*Product
	for _, one := range best[:min(len(best), maxSimilar)] {
		rows = append(rows, w.products.Rows.At(one.number))
	}
	return listOf(c, table.Rows(rows), w.productItems(c.reads)), nil
}

// alike are products of one composition.
type alike struct {
	score int // what they have in common with another product
	rows  *table.RowSet
}

// alikeTo groups the products that have anything in common with another one, those
// that share most first.
func (w *world) alikeTo(p *Product) (groups []alike) {
	for f := range w.productSearch.Facets.Keys() {
		if f.Kind != facetComposition {
			continue
		}
		rows := w.productSearch.Having(f)
		if one := rows.Numbers(0, min(rows.N, 1)); len(one) == 1 {
			if score := p.shares(w.products.Rows.At(one[0])); score > 0 {
				groups = append(groups, alike{score, rows})
			}
		}
	}
	slices.SortFunc(groups, func(a, b alike) int { return cmp.Compare(b.score, a.score) })
	return groups
}

// shares is how much a product has in common with another.
func (p *Product) shares(other *Product) (score int) {
	if p.SupplementTypeID != "" && other.SupplementTypeID == p.SupplementTypeID {
		score++
	}
	for _, id := range other.IngredientIDs {
		if slices.Contains(p.IngredientIDs, id) {
			score += 2
		}
	}
	return score
}
