package dispensarytest

import (
	"cmp"
	"slices"
)

// termView is an allergen, ingredient, supplement type or certification.
type termView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func viewTerm(t *Term) termView { return termView{ID: t.ID, Name: t.Name} }

func allergens(w *world) *table[Term]       { return &w.allergens }
func ingredients(w *world) *table[Term]     { return &w.ingredients }
func supplementTypes(w *world) *table[Term] { return &w.supplementTypes }
func certifications(w *world) *table[Term]  { return &w.certifications }

func listTerms(of func(*world) *table[Term]) handler {
	return func(c *call, w *world) (reply, error) { return listOf(c, of(w).everything(), viewTerm), nil }
}

func getTerm(of func(*world) *table[Term]) handler {
	return func(c *call, w *world) (reply, error) { return one(of(w), c.arg(), viewTerm) }
}

// one answers with a single row of a table that belongs to no clinic.
func one[T, V any](rows *table[T], id string, view func(*T) V) (reply, error) {
	row, known := rows.get(id)
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
	return listOf(c, w.practitionerTypes.everything(), func(t *PractitionerType) practitionerTypeView {
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
	return listOf(c, rowsOf(w.brands.where(func(b *Brand) bool {
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
	return listOf(c, rowsOf(w.categories.where(func(k *Category) bool { return k.ClinicID == c.clinicID() })), func(k *Category) categoryView {
		return categoryView{ID: k.ID, Name: k.Name}
	}), nil
}

func getCategory(c *call, w *world) (reply, error) {
	k, known := w.categoryOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	return ok(categoryView{ID: k.ID, Name: k.Name, ProductCount: new(w.inCategory(k.ID).n)}), nil
}

func listCategoryProducts(c *call, w *world) (reply, error) {
	if _, known := w.categoryOf(c.clinicID(), c.arg()); !known {
		return reply{}, notFound()
	}
	return listOf(c, w.products.list(w.inCategory(c.arg())), w.productItems(c.reads)), nil
}

// categoryOf returns a category of the clinic; others are not known to it.
func (w *world) categoryOf(clinicID, id string) (*Category, bool) {
	k, known := w.categories.get(id)
	return k, known && k.ClinicID == clinicID
}

func (w *world) inCategory(id string) *rowSet {
	return w.productSearch.having(facet{facetCategory, id})
}

// maxSimilar is how many similar products there are at most.
const maxSimilar = 10

// listSimilarProducts curates by what a product is for and made of: the more it
// shares, the higher it stands. The real curation is not documented.
func listSimilarProducts(c *call, w *world) (reply, error) {
	self, known := w.products.get(c.arg())
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
		for _, n := range g.rows.numbers(0, min(g.rows.n, maxSimilar+1)) {
			if n != w.products.number(self.ID) {
				best = append(best, candidate{g.score, n})
			}
		}
	}
	slices.SortFunc(best, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.number, b.number))
	})
	var rows []*Product
	for _, one := range best[:min(len(best), maxSimilar)] {
		rows = append(rows, w.products.rows.at(one.number))
	}
	return listOf(c, rowsOf(rows), w.productItems(c.reads)), nil
}

// alike are products of one composition.
type alike struct {
	score int // what they have in common with another product
	rows  *rowSet
}

// alikeTo groups the products that have anything in common with another one, those
// that share most first.
func (w *world) alikeTo(p *Product) (groups []alike) {
	for f := range w.productSearch.facets.keys() {
		if f.kind != facetComposition {
			continue
		}
		rows := w.productSearch.having(f)
		if one := rows.numbers(0, min(rows.n, 1)); len(one) == 1 {
			if score := p.shares(w.products.rows.at(one[0])); score > 0 {
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
