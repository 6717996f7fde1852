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
		return (available != "true" || b.Available) && (permitted != "true" || !b.Restricted)
	})), viewBrand), nil
}

func getBrand(c *call, w *world) (reply, error) { return one(&w.brands, c.arg(), viewBrand) }

type categoryView struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	ProductCount *int   `json:"product_count,omitempty"` // single-category response only
}

func listCategories(c *call, w *world) (reply, error) {
	return listOf(c, w.categories.everything(), func(k *Category) categoryView { return categoryView{ID: k.ID, Name: k.Name} }), nil
}

func getCategory(c *call, w *world) (reply, error) {
	return one(&w.categories, c.arg(), func(k *Category) categoryView {
		return categoryView{ID: k.ID, Name: k.Name, ProductCount: new(len(w.inCategory(k.ID)))}
	})
}

func listCategoryProducts(c *call, w *world) (reply, error) {
	if _, known := w.categories.get(c.arg()); !known {
		return reply{}, notFound()
	}
	return listOf(c, rowsOf(w.inCategory(c.arg())), w.productItems(c.reads)), nil
}

func (w *world) inCategory(id string) []*Product {
	return w.products.where(func(p *Product) bool { return slices.Contains(p.CategoryIDs, id) })
}

// listSimilarProducts curates by what a product is for and made of: the more it
// shares, the higher it stands. The real curation is not documented.
func listSimilarProducts(c *call, w *world) (reply, error) {
	self, known := w.products.get(c.arg())
	if !known {
		return reply{}, notFound()
	}
	score := func(p *Product) int {
		shared := 0
		if p.SupplementTypeID != "" && p.SupplementTypeID == self.SupplementTypeID {
			shared++
		}
		for _, id := range p.IngredientIDs {
			if slices.Contains(self.IngredientIDs, id) {
				shared += 2
			}
		}
		return shared
	}
	rows := w.products.where(func(p *Product) bool { return p.ID != self.ID && score(p) > 0 })
	slices.SortStableFunc(rows, func(a, b *Product) int { return cmp.Compare(score(b), score(a)) })
	return listOf(c, rowsOf(rows[:min(len(rows), 10)]), w.productItems(c.reads)), nil
}
