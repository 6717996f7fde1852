package dispensarytest

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Orders are the orders of all patients. Actions make events,
// as on the real platform, and return them; see [Server].
type Orders struct{ actions }

// All returns all orders, in the order they were placed.
func (p Orders) All() []model.Order {
	return all(p.server, func(w *store.World) table.Table[*model.Order] { return w.Orders })
}

// Get returns an order by id.
func (p Orders) Get(id string) (model.Order, bool) {
	return find(p.server, func(w *store.World) table.Table[*model.Order] { return w.Orders }, id)
}

// Place lets a patient order: order.placed, whose data is not wrapped.
// Treatment plans have to be the patient's own, and active.
func (p Orders) Place(patientID string, in model.NewOrder) (out model.Order, e model.Event, err error) {
	err = transact(p.server, func(w *store.World) error {
		patient, known := w.Patients.Rows[patientID]
		if !known {
			return model.Unknown("PlaceOrder", "patient", patientID)
		}
		row := &model.Order{ClinicID: patient.ClinicID, PatientID: patient.ID, Lines: slices.Clone(in.Lines)}
		if err := w.FillOrder(row, in.PlanIDs); err != nil {
			return err
		}
		if err := w.Price(row, w.TotalDiscount(patient)); err != nil {
			return err
		}
		table.Put(&w.Carts, patient.ID, &store.Cart{PatientID: patient.ID})
		w.PutOrder(row, p.server.clock.Now())
		out, e = store.Detached(*row), p.emit(model.OrderPlaced, row.ClinicID, row.ID, p.unwrapped("order", view.Order(row)))
		return nil
	})
	return out, e, err
}

// Refund gives a patient money back; an amount of 0 is everything that is
// left. The payment total goes down. There is no event type for it, so it makes
// no event.
func (p Orders) Refund(orderID string, amount model.Cents) (out model.Order, err error) {
	err = transact(p.server, func(w *store.World) error {
		old, known := w.Orders.Rows[orderID]
		if !known {
			return model.Unknown("RefundOrder", "order", orderID)
		}
		if old.PaymentTotal == 0 {
			return model.Refused("RefundOrder", model.ErrState, "the order is refunded already")
		}
		if amount == 0 {
			amount = old.PaymentTotal
		}
		if amount < 0 || amount > old.PaymentTotal {
			return model.Refused("RefundOrder", model.ErrInvalid, "%s of %s cannot be refunded", amount, old.PaymentTotal)
		}
		row := *old
		row.PaymentTotal -= amount
		row.Refunded += amount
		table.Put(&w.Orders, row.ID, &row)
		out = store.Detached(row)
		return nil
	})
	return out, err
}
