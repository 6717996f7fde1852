package store

import (
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Shares returns a score for the ingredients and the supplement type that two products share.
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

// AddIntegrations adds each integrations to every clinic that has none.
func (w *World) AddIntegrations(each int) {
	for _, clinic := range w.Clinics.Rows {
		if len(table.Of(w.Integrations, ByClinic, clinic.ID)) > 0 {
			continue
		}
		for range each {
			id := w.NewID("integration")
			table.Put(&w.Integrations, &Integration{ID: id, ClinicID: clinic.ID, Key: "ck_" + ids.Secret(w.Seed, "clinic key "+id)[:40]})
		}
	}
}

// OrderPlan returns the id of an order's first plan, for sorting. Orders without a plan sort
// last.
func OrderPlan(o *model.Order) string {
	if len(o.PlanIDs) == 0 {
		return "~"
	}
	return o.PlanIDs[0]
}

// TotalDiscount adds the patient's and the clinic's discount. The maximum of 100 is an
// assumption: a price cannot be negative.
func (w *World) TotalDiscount(p *model.Patient) float64 {
	return min(p.Discount+w.clinic(p.ClinicID).Discount, 100)
}

func (w *World) ProtocolOf(clinicID, id string) (*model.Protocol, bool) {
	p, known := table.Get(w.Protocols, id)
	if !known {
		return nil, false
	}
	_, ours := w.PractitionerOf(clinicID, p.PractitionerID)
	return p, ours
}

// Offers reports whether an ownership filter includes a protocol: the practitioner's own
// protocols, or shared protocols of colleagues in the clinic.
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

func (w *World) IntegrationByKey(key string) *Integration {
	if of := table.Of(w.Integrations, byKey, key); len(of) > 0 {
		return of[0]
	}
	return nil
}

// ActivatedAt returns the time of the first request with an integration's key, or zero.
func ActivatedAt(i *Integration, behaviors *rules.Set) time.Time {
	if i.Activated.IsZero() && behaviors.Is(behavior.IntegrationActivationFromTheStart) {
		return Epoch
	}
	return i.Activated
}

// IntegrationInUse returns the integration of a clinic for use without a key: the first that
// is not revoked, or else the first.
func (w *World) IntegrationInUse(clinicID string) *Integration {
	all := table.Of(w.Integrations, ByClinic, clinicID)
	return all[max(slices.IndexFunc(all, func(i *Integration) bool { return !i.Revoked }), 0)]
}
