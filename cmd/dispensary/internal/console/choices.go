package console

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// choices are what a field by this name is filled in with.
func (h *Handler) choices(field string) []choice {
	return slices.Concat(h.knownWords(field), h.knownIDs(field))
}

// offer makes choices of rows.
func offer[T any](rows []T, of func(T) (value, label string)) []choice {
	var all []choice
	for _, row := range rows {
		value, label := of(row)
		all = append(all, choice{value, label})
	}
	return all
}

func itself(word string) (value, label string) { return word, "" }

func (h *Handler) knownWords(field string) []choice {
	switch field {
	case "effect":
		return offer(effects, func(e effect) (string, string) { return string(e.Name), e.Words })
	case "gender":
		return offer([]string{"female", "male", "x"}, func(word string) (string, string) { return word, words(word) })
	case "event_type", "types":
		return offer(model.EventTypes(), itself)
	case "scopes":
		return offer(dispensarytest.Scopes(), itself)
	case "fault_id":
		return offer(h.fake.Faults(), func(f *dispensarytest.FaultHandle) (string, string) { return f.ID(), f.String() })
	case "key":
		return offer(h.fake.ClinicKeys(), itself)
	case "behavior":
		return offer(dispensarytest.BehaviorChoices(), func(s dispensarytest.BehaviorChoice) (string, string) { return s.Name, s.Why })
	case "user":
		return offer(h.fake.Users(), func(u model.User) (string, string) { return u.Email, u.Name })
	}
	return nil
}

func (h *Handler) knownIDs(field string) []choice {
	world := h.fake
	patient := func(id string) string {
		p, _ := world.Patients.Get(id)
		return or(nameOf(p), "no patient")
	}
	switch field {
	case "order_id":
		return offer(world.Overview(latest).Orders, func(o model.Order) (string, string) {
			return o.ID, o.Number + ", " + patient(o.PatientID) + ", " + day(o.CompletedAt)
		})
	case "patient_id":
		return offer(world.Overview(latest).Patients, func(p model.Patient) (string, string) { return p.ID, nameOf(p) })
	case "plan_id", "plan_ids":
		return offer(world.Overview(latest).Plans, func(p model.Plan) (string, string) {
			return p.ID, p.State + ", " + patient(p.PatientID) + ", " + day(p.CreatedAt)
		})
	case "protocol_id":
		return offer(newest(world.Protocols.All()), func(p model.Protocol) (string, string) { return p.ID, p.Name + ", " + p.State })
	case "practitioner_id":
		return offer(newest(world.Clinics.Practitioners()), func(p model.Practitioner) (string, string) { return p.ID, p.FirstName + " " + p.LastName })
	case "variant_id":
		var all []choice
		for _, p := range world.Overview(latest).Products {
			all = append(all, offer(p.VariantIDs, func(id string) (string, string) { return id, p.Name })...)
		}
		return all
	case "product_id":
		return offer(world.Overview(latest).Products, func(p model.Product) (string, string) { return p.ID, p.Name })
	}
	return nil
}
