package store

import (
	"cmp"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// CategoryOf returns a category of the clinic; others are not known to it.
func (w *World) CategoryOf(clinicID, id string) (*model.Category, bool) {
	k, known := w.Categories.Get(id)
	return k, known && k.ClinicID == clinicID
}

func (w *World) InCategory(id string) *table.RowSet {
	return w.ProductSearch.Having(table.Facet{Kind: facetCategory, ID: id})
}

// AlikeTo groups the products that have anything in common with another one, those
// that share most first.
func (w *World) AlikeTo(p *model.Product) (groups []alike) {
	for f := range w.ProductSearch.Facets.Keys() {
		if f.Kind != facetComposition {
			continue
		}
		rows := w.ProductSearch.Having(f)
		if one := rows.Numbers(0, min(rows.N, 1)); len(one) == 1 {
			if score := Shares(p, w.Products.Rows.At(one[0])); score > 0 {
				groups = append(groups, alike{score, rows})
			}
		}
	}
	slices.SortFunc(groups, func(a, b alike) int { return cmp.Compare(b.Score, a.Score) })
	return groups
}

// Shares is how much a product has in common with another.
func Shares(p, other *model.Product) (score int) {
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

// AddIntegrations connects the application with every clinic that it is not
// connected with.
func (w *World) AddIntegrations(each int) {
	for clinic := range w.Clinics.All() {
		if len(w.integrationsOf(clinic.ID)) > 0 {
			continue
		}
		for range each {
			id := w.NewID("integration")
			w.Integrations.Put(id, &model.Integration{ID: id, ClinicID: clinic.ID, Key: "ck_" + ids.Secret(w.seed, "clinic key "+id)[:40]})
		}
	}
}

// EventsByType lists events of one type after those of another, each in the order of
// creation.
func (w *World) EventsByType(types []string, kept func(*model.Event) int, clinic string, descending bool) (rows table.List[*model.Event]) {
	rows = table.Rows[*model.Event](nil)
	for _, kind := range types { // they are sorted
		one := w.Events.SpanWithin(EventsByType, kept, clinic, kind).Created()
		if descending {
			rows = rows.After(one)
			continue
		}
		rows = one.After(rows)
	}
	return rows
}

// ClinicOrders lists the orders that a clinic's patients completed in some days.
func (w *World) ClinicOrders(clinic string, in Days, by int, unsorted, descending bool) table.List[*model.Order] {
	switch {
	case unsorted && !in.Set:
		return w.Orders.Span(ordersByClinic, clinic).Created()
	case by != ordersByTime && !in.Set:
		return w.Orders.Span(by, clinic).Sorted(descending)
	}
	held := w.Orders.SpanWithin(ordersByTime, func(o *model.Order) int { return in.Place(o.CompletedAt) }, clinic)
	switch {
	case unsorted:
		return held.Created()
	case by == ordersByTime:
		return held.Sorted(descending)
	default:
		return w.Orders.Span(by, clinic).Sorted(descending).Keep(held.Len(), func(o *model.Order) bool { return in.Holds(o.CompletedAt) })
	}
}

// OrderFields are the ways that a list of orders is sorted; without a field it is the
// time.
var OrderFields = map[string]int{
	"": ordersByTime, "patient_id": OrdersByPatient, "treatment_plan_id": ordersByPlan, "order_number": OrdersByNumber, "completed_at": ordersByTime,
}

// TotalDiscount adds the clinic's discount. That it ends at 100 is an assumption: a
// price cannot be negative.
func (w *World) TotalDiscount(p *model.Patient) float64 {
	return min(p.Discount+w.clinic(p.ClinicID).Discount, 100)
}

// Listed finds the products that the catalog has.
func (w *World) Listed() *table.RowSet {
	return w.ProductSearch.Having(table.Facet{Kind: facetListed})
}

// OpenTo finds the products of the brands that a clinic can order from.
func (w *World) OpenTo(clinicID string) *table.RowSet {
	found := w.ProductSearch.Having(table.Facet{Kind: facetOpen})
	for _, b := range w.Brands.Where(func(b *model.Brand) bool { return b.Restricted && b.Permits(clinicID) }) {
		found = found.Or(w.ProductSearch.Having(table.Facet{Kind: FacetBrand, ID: b.ID}))
	}
	return found
}

func (w *World) ProtocolOf(clinicID, id string) (*model.Protocol, bool) {
	p, known := w.Protocols.Get(id)
	if !known {
		return nil, false
	}
	_, ours := w.PractitionerOf(clinicID, p.PractitionerID)
	return p, ours
}

// Offers reports that a practitioner sees a protocol under an ownership filter:
// one's own, and those that colleagues of the clinic share.
func (w *World) Offers(p *model.Protocol, owned bool, filter, clinicID string) bool {
	_, ours := w.PractitionerOf(clinicID, p.PractitionerID)
	shared := !owned && ours && p.Ownership == "shared"
	switch filter {
	case "shared":
		return shared
	case "all":
		return owned || shared
	default:
		return owned
	}
}

func (w *World) IntegrationByKey(key string) *model.Integration {
	if found := w.Integrations.Span(integrationsByKey, key).Created(); key != "" && found.N > 0 {
		return found.All()[0]
	}
	return nil
}

// IntegrationInUse is the integration that stands for a clinic where no key does.
func (w *World) IntegrationInUse(clinicID string) *model.Integration {
	all := w.integrationsOf(clinicID)
	return all[max(slices.IndexFunc(all, func(i *model.Integration) bool { return !i.Revoked }), 0)]
}

func (w *World) integrationsOf(clinicID string) []*model.Integration {
	return w.Integrations.Span(IntegrationsByClinic, clinicID).Created().All()
}

// alike are products of one composition.
type alike struct {
	Score int // what they have in common with another product
	Rows  *table.RowSet
}
