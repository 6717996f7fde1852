package httpapi

import (
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func listProducts(c *call, w *store.World) (reply, error) {
	return listOf(c, w.Listed(), view.ProductItems(w, c.behaviors)), nil
}

// getProduct includes the custom dosage of the practitioner in the request, or of the token's
// practitioner if the request has none. The token of a clinic has none.
func getProduct(c *call, w *store.World) (reply, error) {
	p, known := w.Products.Rows[c.arg]
	if !known || p.Removed {
		return reply{}, notFound()
	}
	practitioner := c.params.get("practitioner_id")
	if practitioner == "" {
		practitioner = c.practitionerID()
	} else if _, known := w.PractitionerOf(c.clinicID(), practitioner); !known {
		return reply{}, invalid("practitioner_id must exist") // the status is an assumption
	}
	var custom *model.Dosage
	if d, set := w.CustomDosages.Rows[store.CustomDosageID(practitioner, p.ID)]; set {
		custom = &d.Dosage
	}
	return ok(view.Product(w, p, custom, c.behaviors)), nil
}

// searchProducts matches the query with names, brands and SKUs. Each array filter keeps
// products that have all of its values: an assumption.
func searchProducts(c *call, w *store.World) (reply, error) {
	brand, words := c.params.get("brand_id"), strings.Fields(strings.ToLower(c.params.get("query")))
	rows := table.Where(w.Products, func(p *model.Product) bool {
		return w.OpenTo(c.clinicID(), p) && (brand == "" || brand == p.BrandID) &&
			c.holds("allergen_ids[]", p.AllergenIDs...) && c.holds("ingredient_ids[]", p.IngredientIDs...) &&
			c.holds("supplement_type_ids[]", p.SupplementTypeID) && c.holds("third_party_certification_ids[]", p.CertificationIDs...) &&
			store.Mentions(w.ProductText(p), words)
	})
	return listOf(c, rows, view.ProductItems(w, c.behaviors)), nil
}

// holds reports whether a product with these ids passes an array filter.
func (c *call) holds(filter string, ids ...string) bool {
	wanted := c.params[filter]
	if c.behaviors.AnyFilter {
		return len(wanted) == 0 || slices.ContainsFunc(wanted, func(id string) bool { return slices.Contains(ids, id) })
	}
	return !slices.ContainsFunc(wanted, func(id string) bool { return !slices.Contains(ids, id) })
}

func getVariant(c *call, w *store.World) (reply, error) {
	v, known := w.Variant(c.arg)
	if !known {
		return reply{}, notFound()
	}
	p, _ := w.Products.Rows[v.ProductID]
	answer := view.Variant(v)
	answer.Product = &view.ProductRef{ID: p.ID, Name: p.Name, Brand: view.BrandOf(w, p.BrandID)}
	return ok(answer), nil
}
