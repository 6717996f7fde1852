package httpapi

import (
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func listProducts(c *call, w *store.World) (reply, error) {
	return listOf(c, w.Products.List(w.Listed()), view.ProductItems(w, c.behaviors)), nil
}

// getProduct shows the custom dosage of the practitioner who is named, or of the one
// whose token it is. The token of a clinic has none.
func getProduct(c *call, w *store.World) (reply, error) {
	p, known := w.Products.Get(c.arg())
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
	if d, set := w.CustomDosages.Get(model.CustomDosageID(practitioner, p.ID)); set {
		custom = &d.Dosage
	}
	return ok(view.Product(w, p, custom, c.behaviors)), nil
}

// searchProducts matches the query with names, brands and SKUs. Each array
// filter keeps products that have all of its values: an assumption.
func searchProducts(c *call, w *store.World) (reply, error) {
	index := &w.ProductSearch
	found := w.OpenTo(c.clinicID())
	if brand := c.params.get("brand_id"); brand != "" {
		found = found.And(index.Having(table.Facet{Kind: store.FacetBrand, ID: brand}))
	}
	for filter, kind := range productFilters {
		found = c.filtered(index, found, kind, c.params[filter])
	}
	found = index.Find(found, strings.Fields(strings.ToLower(c.params.get("query"))))
	return listOf(c, w.Products.List(found), view.ProductItems(w, c.behaviors)), nil
}

var productFilters = map[string]string{
	"allergen_ids[]": store.FacetAllergen, "ingredient_ids[]": store.FacetIngredient,
	"supplement_type_ids[]": store.FacetType, "third_party_certification_ids[]": store.FacetCertification,
}

// filtered narrows what was found by the values of a filter.
func (c *call) filtered(index *table.Search, found *table.RowSet, kind string, ids []string) *table.RowSet {
	matching := &table.RowSet{}
	for i, id := range ids {
		switch rows := index.Having(table.Facet{Kind: kind, ID: id}); {
		case i == 0:
			matching = rows
		case c.behaviors.AnyFilter:
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

func getVariant(c *call, w *store.World) (reply, error) {
	v, known := w.Variant(c.arg())
	if !known {
		return reply{}, notFound()
	}
	p, _ := w.Products.Get(v.ProductID)
	answer := view.Variant(v)
	answer.Product = &view.ProductRef{ID: p.ID, Name: p.Name, Brand: view.BrandOf(w, p.BrandID)}
	return ok(answer), nil
}
