package httpapi

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// itself returns the view of a row that is encoded as it is stored.
func itself[T any](row *T) *T { return row }

func allergens(w *store.World) table.Table[*store.Term] { return w.Allergens }

func ingredients(w *store.World) table.Table[*store.Term] { return w.Ingredients }

func supplementTypes(w *store.World) table.Table[*store.Term] { return w.SupplementTypes }

func certifications(w *store.World) table.Table[*store.Term] { return w.Certifications }

func listTerms(of func(*store.World) table.Table[*store.Term]) handler {
	return func(c *call, w *store.World) (reply, error) {
		return listOf(c, of(w).Rows, itself), nil
	}
}

func getTerm(of func(*store.World) table.Table[*store.Term]) handler {
	return func(c *call, w *store.World) (reply, error) { return one(of(w), c.arg, itself) }
}

func listPractitionerTypes(c *call, w *store.World) (reply, error) {
	return listOf(c, w.PractitionerTypes.Rows, itself), nil
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
	available, permitted := c.query.oneOf("available", "true", "false"), c.query.oneOf("clinic_permitted", "true", "false")
	return listOf(c, table.Where(w.Brands.Rows, func(b *store.Brand) bool {
		return (available != "true" || b.Available) && (permitted != "true" || b.Permits(c.clinicID()))
	}), viewBrand), nil
}

func getBrand(c *call, w *store.World) (reply, error) { return one(w.Brands, c.arg, viewBrand) }

type categoryView struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	ProductCount *int   `json:"product_count,omitempty"` // single-category response only
}

func viewCategory(k *store.Category) categoryView { return categoryView{ID: k.ID, Name: k.Name} }

func getCategory(c *call, w *store.World, k *store.Category) (reply, error) {
	return ok(categoryView{ID: k.ID, Name: k.Name, ProductCount: new(len(table.Of(w.Products, store.ByCategory, k.ID)))}), nil
}

func listCategoryProducts(c *call, w *store.World, k *store.Category) (reply, error) {
	return listOf(c, table.Of(w.Products, store.ByCategory, k.ID), view.ProductItems(w, c.behaviors)), nil
}

// maxSimilar is the maximum number of similar products.
const maxSimilar = 10

// listSimilarProducts ranks products by their common supplement type and ingredients. The
// ranking of the real platform is not documented.
func listSimilarProducts(c *call, w *store.World) (reply, error) {
	self, known := table.Get(w.Products, c.arg)
	if !known || self.Removed {
		return reply{}, notFound()
	}
	rows := table.Where(table.Of(w.Products, store.Listed, ""), func(p *model.Product) bool { return p != self && store.Shares(self, p) > 0 })
	slices.SortStableFunc(rows, func(a, b *model.Product) int { return store.Shares(self, b) - store.Shares(self, a) })
	return listOf(c, rows[:min(len(rows), maxSimilar)], view.ProductItems(w, c.behaviors)), nil
}

func listProducts(c *call, w *store.World) (reply, error) {
	return listOf(c, table.Of(w.Products, store.Listed, ""), view.ProductItems(w, c.behaviors)), nil
}

// getProduct includes the custom dosage of the practitioner in the request, or of the token's
// practitioner if the request has none. The token of a clinic has none.
func getProduct(c *call, w *store.World) (reply, error) {
	p, known := table.Get(w.Products, c.arg)
	if !known || p.Removed {
		return reply{}, notFound()
	}
	practitioner := c.query.get("practitioner_id")
	if practitioner == "" {
		practitioner = c.practitionerID()
	} else if _, known := w.PractitionerOf(c.clinicID(), practitioner); !known {
		return reply{}, invalid("practitioner_id must exist") // the status is an assumption
	}
	var custom *model.Dosage
	if d, set := table.Get(w.CustomDosages, store.CustomDosageID(practitioner, p.ID)); set {
		custom = &d.Dosage
	}
	return ok(view.Product(w, p, custom, c.behaviors)), nil
}

// searchProducts matches the query with names, brands and SKUs. Each array filter keeps
// products that have all of its values: an assumption.
func searchProducts(c *call, w *store.World) (reply, error) {
	brand := c.query.get("brand_id")
	rows := table.Where(table.Search(w.Products, store.Listed, "", c.query.get("query")), func(p *model.Product) bool {
		return w.OpenTo(c.clinicID(), p) && (brand == "" || brand == p.BrandID) &&
			c.holds("allergen_ids[]", p.AllergenIDs...) && c.holds("ingredient_ids[]", p.IngredientIDs...) &&
			c.holds("supplement_type_ids[]", p.SupplementTypeID) && c.holds("third_party_certification_ids[]", p.CertificationIDs...)
	})
	return listOf(c, rows, view.ProductItems(w, c.behaviors)), nil
}

// holds reports whether a product with these ids passes an array filter.
func (c *call) holds(filter string, ids ...string) bool {
	wanted := c.query.values[filter]
	if c.behaviors.Is(behavior.ArrayFiltersAny) {
		return len(wanted) == 0 || slices.ContainsFunc(wanted, func(id string) bool { return slices.Contains(ids, id) })
	}
	return !slices.ContainsFunc(wanted, func(id string) bool { return !slices.Contains(ids, id) })
}

func getVariant(c *call, w *store.World) (reply, error) {
	v, known := w.Variant(c.arg)
	if !known {
		return reply{}, notFound()
	}
	p, _ := table.Get(w.Products, v.ProductID)
	response := view.Variant(v)
	response.Product = &view.ProductRef{ID: p.ID, Name: p.Name, Brand: view.BrandOf(w, p.BrandID)}
	return ok(response), nil
}
