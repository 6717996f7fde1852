package people

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// PlaceOrder lets a patient order: order.placed, whose data is not wrapped.
// Treatment plans have to be the patient's own, and active.
func (p *People) PlaceOrder(patientID string, in model.NewOrder) (out model.Order, e model.Event, err error) {
	err = p.act(func(w *store.World) error {
		patient, known := w.Patients.Get(patientID)
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
		w.Carts.Put(patient.ID, &store.Cart{PatientID: patient.ID})
		w.PutOrder(row, p.Clock.Now())
		out, e = store.Detached(*row), p.emit(model.OrderPlaced, row.ClinicID, row.ID, p.unwrapped("order", view.Order(row)))
		return nil
	})
	return out, e, err
}

// RefundOrder gives a patient money back; an amount of 0 is everything that is
// left. The payment total goes down. There is no event type for it, so it makes
// no event.
func (p *People) RefundOrder(orderID string, amount model.Cents) (out model.Order, err error) {
	err = p.act(func(w *store.World) error {
		old, known := w.Orders.Get(orderID)
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
		w.Orders.Put(row.ID, &row)
		out = store.Detached(row)
		return nil
	})
	return out, err
}
