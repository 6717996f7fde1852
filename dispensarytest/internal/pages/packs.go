package pages

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// variantView is a pack of a product on a page.
type variantView struct {
	VariantID string
	Product   string
	Pack      string // "60 capsules"
	Price     model.Cents
	Status    string
}

// packOf describes a variant. Variants that left the catalog keep their place.
func packOf(w *store.World, variantID string) variantView {
	v, known := w.Variants.Rows[variantID]
	if !known {
		return variantView{VariantID: variantID, Product: "Unknown product"}
	}
	view := variantView{VariantID: v.ID, Pack: packText(v), Price: v.MSRP, Status: v.Status}
	if p, known := w.Products.Rows[v.ProductID]; known {
		view.Product = p.Name
	}
	return view
}

// packText returns the size of a pack, with fallbacks for null fields.
func packText(v *model.Variant) string {
	switch {
	case v.Units == 0:
		return cmp.Or(v.UnitOfMeasure, v.SKU)
	case v.UnitOfMeasure == "":
		return fmt.Sprintf("%d units", v.Units)
	}
	return fmt.Sprintf("%d %s", v.Units, v.UnitOfMeasure)
}

// maxFound is the maximum number of packs in a search result.
const maxFound = 12

// findPacks returns the packs of products whose names contain every word.
func findPacks(w *store.World, query string) (found []variantView) {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil
	}
	for p := range table.All(w.Products) {
		if p.Removed || !store.Mentions(p.Name, words) {
			continue
		}
		for _, id := range p.VariantIDs {
			if found = append(found, packOf(w, id)); len(found) == maxFound {
				return found
			}
		}
	}
	return found
}

// fullName returns the name of a person for pages. A patient that a dynamic link created may
// have only an email address.
func fullName(first, last, email string) string {
	return cmp.Or(strings.TrimSpace(first+" "+last), email)
}
