package dispensarytest

import (
	"fmt"
	"slices"
	"time"
)

// NewOrder is what a patient orders. Without lines it takes the recommendations of the
// plans, added up; without plans, too, what an in-office checkout put into the cart, or
// one pack of the first product that is available.
type NewOrder struct {
	PlanIDs []string
	Lines   []Line
}

// shipping is what sending an order costs. Taxes are left out.
const shipping = Cents(499)

// PlaceOrder lets a patient order: order.placed, whose data is not wrapped.
// Treatment plans have to be the patient's own, and active.
func (p *Platform) PlaceOrder(patientID string, in NewOrder) (out Order, e Event, err error) {
	err = p.act(func(w *world) error {
		patient, known := w.patients.Get(patientID)
		if !known {
			return unknown("PlaceOrder", "patient", patientID)
		}
		row := &Order{ClinicID: patient.ClinicID, PatientID: patient.ID, Lines: slices.Clone(in.Lines)}
		if err := w.fillOrder(row, in.PlanIDs); err != nil {
			return err
		}
		if err := w.price(row, w.totalDiscount(patient)); err != nil {
			return err
		}
		w.carts.Put(patient.ID, &cart{patientID: patient.ID})
		w.putOrder(row, p.srv.clock.Now())
		out, e = detached(*row), p.srv.emit(OrderPlaced, row.ClinicID, row.ID, p.srv.unwrapped("order", viewOrder(row)))
		return nil
	})
	return out, e, err
}

// fillOrder finds out what is ordered, and for which plans.
func (w *world) fillOrder(o *Order, planIDs []string) error {
	filled, _ := w.carts.Get(o.PatientID)
	fromCart := len(planIDs) == 0 && len(o.Lines) == 0 && filled != nil && len(filled.lines) > 0
	if fromCart {
		planIDs, o.Lines = []string{filled.planID}, filled.lines
	}
	var recommended []Recommendation
	for _, planID := range planIDs {
		plan, known := w.plans.Get(planID)
		switch {
		case !known:
			return unknown("PlaceOrder", "treatment plan", planID)
		case plan.PatientID != o.PatientID:
			return refused("PlaceOrder", ErrInvalid, "treatment plan %q belongs to another patient", planID)
		case plan.State != StateActive && !fromCart:
			return refused("PlaceOrder", ErrState, "treatment plan %q is %s", planID, plan.State)
		}
		if !slices.Contains(o.PlanIDs, planID) {
			o.PlanIDs = append(o.PlanIDs, planID)
			recommended = append(recommended, plan.Recommendations...)
		}
	}
	if len(o.Lines) == 0 {
		o.Lines = linesOf(recommended)
	}
	if len(o.Lines) == 0 {
		if v := w.firstAvailable(); v != nil {
			o.Lines = []Line{{VariantID: v.ID, Quantity: 1}}
		}
	}
	return nil
}

func (w *world) firstAvailable() *Variant {
	for v := range w.variants.All() {
		if v.Status == VariantAvailable {
			return v
		}
	}
	return nil
}

// price adds up an order.
func (w *world) price(o *Order, discount float64) error {
	if len(o.Lines) == 0 {
		return refused("PlaceOrder", ErrInvalid, "an order needs lines")
	}
	for _, l := range o.Lines {
		v, known := w.variants.Get(l.VariantID)
		switch {
		case !known:
			return unknown("PlaceOrder", "variant", l.VariantID)
		case l.Quantity < 1:
			return refused("PlaceOrder", ErrInvalid, "%d is not a quantity", l.Quantity)
		}
		o.MSRPTotal += v.MSRP * Cents(l.Quantity)
	}
	o.ItemTotal = o.MSRPTotal.less(discount)
	o.PaymentTotal = o.ItemTotal + shipping
	return nil
}

// putOrder gives an order its number and stores it. Order times carry an offset
// of their own, as the API shows them.
func (w *world) putOrder(o *Order, at time.Time) {
	o.ID = w.newID("order")
	o.Number = fmt.Sprintf("R%09d", 410_000_000+w.numbers["order"])
	o.CompletedAt = at.In(w.orderZone())
	w.orders.Put(o.ID, o)
}

func (w *world) orderZone() *time.Location {
	if w.region == Canada {
		return time.FixedZone("", -4*60*60)
	}
	return time.FixedZone("", -5*60*60)
}

// RefundOrder gives a patient money back; an amount of 0 is everything that is
// left. The payment total goes down. There is no event type for it, so it makes
// no event.
func (p *Platform) RefundOrder(orderID string, amount Cents) (out Order, err error) {
	err = p.act(func(w *world) error {
		old, known := w.orders.Get(orderID)
		if !known {
			return unknown("RefundOrder", "order", orderID)
		}
		if old.PaymentTotal == 0 {
			return refused("RefundOrder", ErrState, "the order is refunded already")
		}
		if amount == 0 {
			amount = old.PaymentTotal
		}
		if amount < 0 || amount > old.PaymentTotal {
			return refused("RefundOrder", ErrInvalid, "%s of %s cannot be refunded", amount, old.PaymentTotal)
		}
		row := *old
		row.PaymentTotal -= amount
		row.Refunded += amount
		w.orders.Put(row.ID, &row)
		out = detached(row)
		return nil
	})
	return out, err
}
