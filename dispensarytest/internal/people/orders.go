package people

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Orders performs actions of patients on orders.
type Orders struct{ *actions }

func (p Orders) All() []model.Order {
	return all(p.actions, func(w *store.World) table.Table[*model.Order] { return w.Orders })
}

func (p Orders) Get(id string) (model.Order, bool) {
	return find(p.actions, func(w *store.World) table.Table[*model.Order] { return w.Orders }, id)
}

func (p Orders) Place(patientID string, in model.OrderCreate) (out model.Order, e model.Event, err error) {
	w, done := p.begin()
	defer done()
	patient, known := w.Patients.Rows[patientID]
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
	table.Put(&w.Carts, patient.ID, &store.Cart{PatientID: patient.ID})
	w.PutOrder(row, p.Clock.Now())
	out, e = store.Detached(*row), p.emit(model.EventOrderPlaced, row.ClinicID, row.ID, p.unwrapped("order", view.Order(row)))
	return out, e, nil
}

func (p Orders) Refund(orderID string, amount model.Cents) (out model.Order, err error) {
	w, done := p.begin()
	defer done()
	old, known := w.Orders.Rows[orderID]
	if !known {
		return out, store.Unknown("RefundOrder", "order", orderID)
	}
	if old.PaymentTotal == 0 {
		return out, store.Refused("RefundOrder", model.ErrState, "the order is already refunded")
	}
	if amount == 0 {
		amount = old.PaymentTotal
	}
	if amount < 0 || amount > old.PaymentTotal {
		return out, store.Refused("RefundOrder", model.ErrValidation, "%s of %s cannot be refunded", amount, old.PaymentTotal)
	}
	row := *old
	row.PaymentTotal -= amount
	row.Refunded += amount
	table.Put(&w.Orders, row.ID, &row)
	out = store.Detached(row)
	return out, nil
}
