package actions

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/form"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Clinics performs actions of clinics on the keys of integrations.
type Clinics struct{ records[model.Clinic] }

func (p Clinics) RevokeKey(key string) (e model.Event, err error) {
	w, done := p.begin()
	defer done()
	old := w.IntegrationByKey(key)
	switch {
	case old == nil:
		return e, store.Unknown("RevokeClinicKey", "clinic key", key)
	case old.Revoked:
		return e, store.Rejected("RevokeClinicKey", model.ErrState, "the key is already revoked")
	}
	e = p.emit(model.EventClinicKeyRevoked, old.ClinicID, old.ID, view.ClinicKey(old))
	changed := *old
	changed.Revoked = true
	table.Put(&w.Integrations, &changed)
	p.Sender.Revoke(changed.ID)
	return e, nil
}

func (p Clinics) ActivateKey(key string) (e model.Event, err error) {
	w, done := p.begin()
	defer done()
	old := w.IntegrationByKey(key)
	switch {
	case old == nil:
		return e, store.Unknown("ActivateClinicKey", "clinic key", key)
	case p.enabled(old):
		return e, store.Rejected("ActivateClinicKey", model.ErrState, "the integration is already active")
	}
	return p.activate(w, old), nil
}

// UseKey checks the clinic key of a request and returns a rejection or "". The first request
// with a valid key activates the integration. It is the only API call that emits an event.
func (p Clinics) UseKey(key, clinicID string) (rejection string) {
	p.Store.RLock()
	rejection, active := p.check(p.Store.World.IntegrationByKey(key), clinicID)
	p.Store.RUnlock()
	if rejection != "" || active {
		return rejection
	}
	p.Store.Lock()
	defer p.Store.Unlock()
	found := p.Store.World.IntegrationByKey(key)
	if rejection, active = p.check(found, clinicID); rejection == "" && !active {
		p.activate(p.Store.World, found)
	}
	return rejection
}

// check returns the rejection of a request with an integration's key. If there is none, active
// reports whether the integration is active.
func (p Clinics) check(found *store.Integration, clinicID string) (rejection string, active bool) {
	switch {
	case found == nil || found.ClinicID != clinicID:
		return "The clinic key is invalid", false
	case found.Revoked:
		return "The clinic key was revoked", false
	}
	return "", p.enabled(found)
}

// activate makes an integration active. The caller holds the world's lock.
func (p Clinics) activate(w *store.World, old *store.Integration) model.Event {
	changed := *old
	changed.Revoked = false
	if store.ActivatedAt(old, p.Behaviors.Get()).IsZero() {
		changed.Activated = p.Clock.Now()
	}
	table.Put(&w.Integrations, &changed)
	return p.emit(model.EventClinicKeyActivated, changed.ClinicID, changed.ID, view.ClinicKey(&changed))
}

// Patients performs actions of patients.
type Patients struct{ records[model.Patient] }

func (p Patients) Cart(patientID string) (lines []model.Line) {
	p.Store.Look(func(w *store.World) {
		if filled, known := table.Get(w.Carts, patientID); known {
			lines = slices.Clone(filled.Lines)
		}
	})
	return lines
}

func (p Patients) Create(in model.PatientCreate) (out model.Patient, e model.Event, err error) {
	w, done := p.begin()
	defer done()
	n := len(w.Patients.Rows) + 1
	in.ClinicID, in.FirstName = cmp.Or(in.ClinicID, w.Clinics.Rows[0].ID), cmp.Or(in.FirstName, "Robin")
	in.LastName, in.Email = cmp.Or(in.LastName, fmt.Sprintf("Newcomer %d", n)), cmp.Or(in.Email, fmt.Sprintf("newcomer-%d@example.org", n))
	row := new(in.Patient())
	row.Welcomed, row.CreatedAt = true, p.Clock.Now()
	if _, known := table.Get(w.Clinics, row.ClinicID); !known {
		return out, e, store.Unknown("CreatePatient", "clinic", row.ClinicID)
	}
	if err := checkPatient(w, "CreatePatient", row, &model.Patient{}); err != nil {
		return out, e, err
	}
	row.ID = w.NewID("patient")
	table.Put(&w.Patients, row)
	out, e = store.Detached(*row), p.emit(model.EventPatientCreated, row.ClinicID, row.ID, view.PatientData(w, row))
	return out, e, nil
}

func (p Patients) Update(patientID string, in model.PatientUpdate) (model.Patient, model.Event, error) {
	return p.revise("UpdatePatient", patientID, func(w *store.World, row *model.Patient) error {
		old := *row
		in.Apply(row)
		return checkPatient(w, "UpdatePatient", row, &old)
	}, func(w *store.World, row *model.Patient) model.Event {
		return p.emit(model.EventPatientUpdated, row.ClinicID, row.ID, view.PatientData(w, row))
	})
}

// checkPatient checks the changes of a patient by the rules of requests. A patient that a
// dynamic link created has no names at first.
func checkPatient(w *store.World, action string, p, old *model.Patient) error {
	if w.EmailTaken(p.Email, p.ID) {
		return store.Rejected(action, model.ErrValidation, "email %s", form.Taken)
	}
	before := form.Patient(old)
	for i, field := range form.Patient(p) {
		if *field.To != *before[i].To {
			if err := check(action, field); err != nil {
				return err
			}
		}
	}
	return nil
}

// check checks a text that a person enters by the rules of requests.
func check(action string, field form.Field) error {
	if reason := field.Problem(); reason != "" {
		return store.Rejected(action, model.ErrValidation, "%s %s", field.Name, reason)
	}
	return nil
}

// Orders performs actions of patients on orders.
type Orders struct{ records[model.Order] }

func (p Orders) Place(patientID string, in model.OrderCreate) (out model.Order, e model.Event, err error) {
	w, done := p.begin()
	defer done()
	patient, known := table.Get(w.Patients, patientID)
	if !known {
		return out, e, store.Unknown("PlaceOrder", "patient", patientID)
	}
	row := &model.Order{ClinicID: patient.ClinicID, PatientID: patient.ID, Lines: slices.Clone(in.Lines)}
	if err := w.FillOrder(row, in.PlanIDs); err != nil {
		return out, e, err
	}
	if err := w.Price(row, w.TotalDiscount(patient)); err != nil {
		return out, e, err
	}
	table.Put(&w.Carts, &store.Cart{PatientID: patient.ID})
	w.PutOrder(row, p.Clock.Now())
	out, e = store.Detached(*row), p.emit(model.EventOrderPlaced, row.ClinicID, row.ID, p.unwrapped("order", view.Order(row)))
	return out, e, nil
}

func (p Orders) Refund(orderID string, amount model.Cents) (model.Order, error) {
	out, _, err := p.revise("RefundOrder", orderID, func(_ *store.World, row *model.Order) error {
		paid := row.PaymentTotal
		amount = cmp.Or(amount, paid)
		switch {
		case paid == 0:
			return store.Rejected("RefundOrder", model.ErrState, "the order is already refunded")
		case amount < 0 || amount > paid:
			return store.Rejected("RefundOrder", model.ErrValidation, "%s of %s cannot be refunded", amount, paid)
		}
		row.PaymentTotal -= amount
		row.Refunded += amount
		return nil
	}, func(*store.World, *model.Order) model.Event { return model.Event{} })
	return out, err
}
