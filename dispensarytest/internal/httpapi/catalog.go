package httpapi

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// termView is an allergen, ingredient, supplement type or certification.
type termView struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func viewTerm(t *store.Term) termView { return termView{ID: t.ID, Name: t.Name} }

func allergens(w *store.World) table.Table[*store.Term] { return w.Allergens }

func ingredients(w *store.World) table.Table[*store.Term] { return w.Ingredients }

func supplementTypes(w *store.World) table.Table[*store.Term] { return w.SupplementTypes }

func certifications(w *store.World) table.Table[*store.Term] { return w.Certifications }

func listTerms(of func(*store.World) table.Table[*store.Term]) handler {
	return func(c *call, w *store.World) (reply, error) {
		return listOf(c, slices.Collect(table.All(of(w))), viewTerm), nil
	}
}

func getTerm(of func(*store.World) table.Table[*store.Term]) handler {
	return func(c *call, w *store.World) (reply, error) { return one(of(w), c.arg, viewTerm) }
}

type practitionerTypeView struct {
	ID          string `json:"id"`
	Code        string `json:"code"`
	Description string `json:"description"`
}

func listPractitionerTypes(c *call, w *store.World) (reply, error) {
	return listOf(c, slices.Collect(table.All(w.PractitionerTypes)), func(t *store.PractitionerType) practitionerTypeView {
		return practitionerTypeView{ID: t.ID, Code: t.Code, Description: t.Description}
	}), nil
}

type brandView struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Prefix string `json:"prefix"`
	Status string `json:"status"`
}

func viewBrand(b *store.Brand) brandView {
	status := "unavailable"
	if b.Available {
		status = "available"
	}
	return brandView{ID: b.ID, Name: b.Name, Prefix: b.Prefix, Status: status}
}

// listBrands filters the list only for "true". Other values include all brands.
func listBrands(c *call, w *store.World) (reply, error) {
	available, err := c.params.oneOf("available", "true", "false")
	if err != nil {
		return reply{}, err
	}
	permitted, err := c.params.oneOf("clinic_permitted", "true", "false")
	if err != nil {
		return reply{}, err
	}
	return listOf(c, table.Where(w.Brands, func(b *store.Brand) bool {
		return (available != "true" || b.Available) && (permitted != "true" || b.Permits(c.clinicID()))
	}), viewBrand), nil
}

func getBrand(c *call, w *store.World) (reply, error) { return one(w.Brands, c.arg, viewBrand) }

type categoryView struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	ProductCount *int   `json:"product_count,omitempty"` // single-category response only
}

func listCategories(c *call, w *store.World) (reply, error) {
	return listOf(c, table.Where(w.Categories, func(k *store.Category) bool { return k.ClinicID == c.clinicID() }), func(k *store.Category) categoryView {
		return categoryView{ID: k.ID, Name: k.Name}
	}), nil
}

func getCategory(c *call, w *store.World, k *store.Category) (reply, error) {
	return ok(categoryView{ID: k.ID, Name: k.Name, ProductCount: new(len(w.InCategory(k.ID)))}), nil
}

func listCategoryProducts(c *call, w *store.World, k *store.Category) (reply, error) {
	return listOf(c, w.InCategory(k.ID), view.ProductItems(w, c.behaviors)), nil
}

// maxSimilar is the maximum number of similar products.
const maxSimilar = 10

// listSimilarProducts ranks products by their common supplement type and ingredients. The
// ranking of the real platform is not documented.
func listSimilarProducts(c *call, w *store.World) (reply, error) {
	self, known := w.Products.Rows[c.arg]
	if !known || self.Removed {
		return reply{}, notFound()
	}
	rows := table.Where(w.Products, func(p *model.Product) bool { return !p.Removed && p != self && store.Shares(self, p) > 0 })
	sortRows(rows, true, func(p *model.Product) int { return store.Shares(self, p) })
	return listOf(c, rows[:min(len(rows), maxSimilar)], view.ProductItems(w, c.behaviors)), nil
}
