package pages

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// checkoutPage contains the data of a checkout.
type checkoutPage struct {
	Heading      string
	Patient      string
	Practitioner string
	Text         string
	Lines        []checkoutLine
	Order        model.Order // as it would be placed, or as it was placed
	Saved        model.Cents
	Shipping     model.Cents
	Placed       bool
}

type checkoutLine struct {
	variantView
	Quantity int
	Total    model.Cents
	Dosage   model.Dosage
}

// checkout shows the in-office checkout of a plan: the patient's cart.
func (v *visitor) checkout() {
	plan, known := v.Actions.Plans.Get(v.id)
	if !known {
		_ = v.problem(http.StatusNotFound, "There is no such checkout.")
		return
	}
	var filled []model.Line
	v.Store.Look(func(w *store.World) {
		if c, known := table.Get(w.Carts, plan.PatientID); known && c.PlanID == plan.ID {
			filled = slices.Clone(c.Lines)
		}
	})
	if len(filled) == 0 && !v.shown(plan, "In-office checkout") {
		_ = v.problem(http.StatusNotFound, "The cart is empty: the order was already placed, or a later checkout has replaced it.")
		return
	}
	if len(filled) > 0 {
		v.buy(plan, "In-office checkout", filled)
	}
}

// invitation shows a plan to its patient and takes the order.
func (v *visitor) invitation() {
	plan, known := v.Actions.Plans.Get(v.id)
	switch {
	case !known || plan.State == model.PlanStateDraft && !v.Behaviors.Get().Is(behavior.DraftInvitationPresent):
		_ = v.problem(http.StatusNotFound, "There is no such treatment plan.")
	case v.shown(plan, "Your treatment plan"):
	case plan.State == model.PlanStateCanceled:
		_ = v.problem(http.StatusGone, "This treatment plan was cancelled.")
	default:
		v.buy(plan, "Your treatment plan", store.LinesOf(plan.Recommendations))
	}
}

// shown shows the placed order if the URL refers to an order of this plan.
func (v *visitor) shown(plan model.Plan, heading string) bool {
	order, known := v.Actions.Orders.Get(v.r.URL.Query().Get("order"))
	if v.posted() || !known || !slices.Contains(order.PlanIDs, plan.ID) {
		return false
	}
	v.showCheckout(http.StatusOK, &Frame{Notice: "Order " + order.Number + " was placed."}, plan, checkoutPage{Heading: heading, Order: order, Placed: true})
	return true
}

// buy shows the lines with their prices, and places the order.
func (v *visitor) buy(plan model.Plan, heading string, offered []model.Line) {
	page := checkoutPage{Heading: heading, Order: model.Order{Lines: offered}}
	if !v.posted() {
		v.showCheckout(http.StatusOK, &Frame{}, plan, page)
		return
	}
	lines, err := v.readLines(offered)
	page.Order.Lines = lines
	if err == nil && v.field("do") == "place" {
		err = v.place(plan, lines, offered)
		if err == nil {
			return
		}
	}
	if err != nil {
		v.showCheckout(http.StatusUnprocessableEntity, &Frame{Message: inWords(err)}, plan, page)
		return
	}
	v.showCheckout(http.StatusOK, &Frame{}, plan, page)
}

// readLines reads the quantities from the form. Other parts of a line cannot change. A
// quantity of 0 omits the line.
func (v *visitor) readLines(offered []model.Line) (lines []model.Line, err error) {
	for i, line := range offered {
		quantity, notNumber := strconv.Atoi(v.indexed("quantity", i))
		if notNumber != nil || quantity < 0 || quantity > 1000 {
			err = fmt.Errorf("%q is not a quantity", v.indexed("quantity", i))
			quantity = line.Quantity
		}
		line.Quantity = quantity
		lines = append(lines, line)
	}
	return lines, err
}

// place places the order and redirects to its URL.
func (v *visitor) place(plan model.Plan, lines, offered []model.Line) error {
	wanted := slices.DeleteFunc(slices.Clone(lines), func(l model.Line) bool { return l.Quantity == 0 })
	if len(wanted) == 0 {
		return store.Rejected("PlaceOrder", model.ErrValidation, "an order needs at least one product")
	}
	in := model.OrderCreate{PlanIDs: []string{plan.ID}, Lines: wanted}
	if slices.Equal(v.Actions.Patients.Cart(plan.PatientID), wanted) && slices.Equal(wanted, offered) {
		in = model.OrderCreate{} // unchanged cart: valid even if the plan was canceled since
	}
	order, _, err := v.Actions.Orders.Place(plan.PatientID, in)
	if err == nil {
		v.leave("?order=" + order.ID)
	}
	return err
}

// showCheckout adds names and prices.
func (v *visitor) showCheckout(status int, f *Frame, plan model.Plan, page checkoutPage) {
	f.Title, page.Text, page.Shipping = page.Heading, plan.PersonalMessage, store.Shipping
	v.Store.Look(func(w *store.World) {
		if p, known := table.Get(w.Patients, plan.PatientID); known {
			page.Patient = fullName(p.FirstName, p.LastName, p.Email)
			if !page.Placed {
				page.price(w, p)
			}
		}
		if p, known := table.Get(w.Practitioners, plan.PractitionerID); known {
			page.Practitioner = fullName(p.FirstName, p.LastName, p.Email)
		}
		for _, line := range page.Order.Lines {
			shown := checkoutLine{variantView: packOf(w, line.VariantID), Quantity: line.Quantity}
			shown.Total = shown.Price * model.Cents(line.Quantity)
			for _, r := range plan.Recommendations {
				if r.VariantID == line.VariantID && r.Dosage != nil {
					shown.Dosage = *r.Dosage
				}
			}
			page.Lines = append(page.Lines, shown)
		}
	})
	page.Saved = page.Order.MSRPTotal - page.Order.ItemTotal
	v.show(status, "checkout", f, page)
}

// price computes the totals of the order. Lines with a quantity of 0 are omitted.
func (page *checkoutPage) price(w *store.World, p *model.Patient) {
	would := model.Order{Lines: slices.DeleteFunc(slices.Clone(page.Order.Lines), func(l model.Line) bool { return l.Quantity == 0 })}
	if w.Price(&would, w.TotalDiscount(p)) != nil {
		return // no line remains: placing the order reports it
	}
	page.Order.MSRPTotal, page.Order.ItemTotal, page.Order.PaymentTotal = would.MSRPTotal, would.ItemTotal, would.PaymentTotal
}
