package store

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// NewVariant stores a pack. Its SKU and UPC follow from its number.
func (w *World) NewVariant(productID, prefix string, primary bool, in model.VariantCreate) *model.Variant {
	v := &model.Variant{
		ID: w.NewID("variant"), ProductID: productID, Primary: primary, Units: cmp.Or(in.Units, 60), MSRP: cmp.Or(in.MSRP, 1999),
		UnitOfMeasure: cmp.Or(in.UnitOfMeasure, "capsules"), Status: cmp.Or(in.Status, model.VariantAvailable),
	}
	n := w.Numbers["variant"]
	v.SKU = prefix + "-" + strconv.FormatUint(1000+n, 10) + "-" + strconv.Itoa(v.Units)
	v.SupplierSKU = prefix + strconv.FormatUint(5000+n, 10)
	v.UPC = upc(10_000 + n*37)
	table.Put(&w.Variants, v)
	return v
}

// upc returns a UPC-A: 8500, the number and the check digit.
func upc(number uint64) string {
	code := strconv.FormatUint(8500_0000000+number, 10)
	sum := 0
	for i, digit := range code {
		sum += int(digit-'0') * (3 - 2*(i%2)) // 3, 1, 3, 1 …
	}
	return code + strconv.Itoa((10-sum%10)%10)
}

// FillOrder fills in the lines of an order and its plans.
func (w *World) FillOrder(o *model.Order, planIDs []string) error {
	filled, _ := table.Get(w.Carts, o.PatientID)
	fromCart := len(planIDs) == 0 && len(o.Lines) == 0 && filled != nil && len(filled.Lines) > 0
	if fromCart {
		planIDs, o.Lines = []string{filled.PlanID}, filled.Lines
	}
	var recommended []model.Recommendation
	for _, planID := range planIDs {
		plan, known := table.Get(w.Plans, planID)
		switch {
		case !known:
			return Unknown("PlaceOrder", "treatment plan", planID)
		case plan.PatientID != o.PatientID:
			return Rejected("PlaceOrder", model.ErrValidation, "treatment plan %q belongs to another patient", planID)
		case plan.State != model.PlanStateActive && !fromCart:
			return Rejected("PlaceOrder", model.ErrState, "treatment plan %q is %s", planID, plan.State)
		}
		if !slices.Contains(o.PlanIDs, planID) {
			o.PlanIDs = append(o.PlanIDs, planID)
			recommended = append(recommended, plan.Recommendations...)
		}
	}
	if len(o.Lines) == 0 {
		o.Lines = LinesOf(recommended)
	}
	if len(o.Lines) == 0 {
		if v := w.FirstAvailable(); v != nil {
			o.Lines = []model.Line{{VariantID: v.ID, Quantity: 1}}
		}
	}
	return nil
}

// Price computes the totals of an order.
func (w *World) Price(o *model.Order, discount float64) error {
	if len(o.Lines) == 0 {
		return Rejected("PlaceOrder", model.ErrValidation, "an order needs lines")
	}
	for _, l := range o.Lines {
		v, err := w.Packs("PlaceOrder", l.VariantID, l.Quantity, "quantity")
		if err != nil {
			return err
		}
		o.MSRPTotal += v.MSRP * model.Cents(l.Quantity)
	}
	o.ItemTotal = less(o.MSRPTotal, discount)
	o.PaymentTotal = o.ItemTotal + Shipping
	return nil
}

// Packs returns the variant of n packs in an order, a plan or a protocol. It returns an error
// if the catalog does not have the variant, or if n is not above 0.
func (w *World) Packs(action, variantID string, n int, what string) (*model.Variant, error) {
	v, known := w.Variant(variantID)
	switch {
	case !known:
		return nil, Unknown(action, "variant", variantID)
	case n < 1:
		return nil, Rejected(action, model.ErrValidation, "%d is not a %s", n, what)
	}
	return v, nil
}

// PutOrder numbers an order and stores it. The time of an order has the offset of another time
// zone, as in the API's examples.
func (w *World) PutOrder(o *model.Order, at time.Time) {
	o.ID = w.NewID("order")
	o.Number = fmt.Sprintf("R%09d", 410_000_000+w.Numbers["order"])
	o.CompletedAt = at.In(w.orderZone())
	table.Put(&w.Orders, o)
}

func (w *World) orderZone() *time.Location {
	if w.Environment == api.CanadaSandbox {
		return time.FixedZone("", -4*60*60)
	}
	return time.FixedZone("", -5*60*60)
}

// Shipping is the shipping cost of an order. There are no taxes.
const Shipping = model.Cents(499)

// PlanLacks describes the missing part of a plan that is about to be sent or bought. It
// returns "" if the plan is complete.
func PlanLacks(p *model.Plan) string {
	switch {
	case p.PatientID == "":
		return "has no patient"
	case len(p.Recommendations) == 0:
		return "has no recommendations"
	}
	return ""
}

// PlanUnready returns the reason for which a draft cannot be activated, or "". The rule is an
// assumption.
func PlanUnready(p *model.Plan, behaviors *rules.Set) string {
	if behaviors.Is(behavior.IncompletePlanActivated) {
		return ""
	}
	return PlanLacks(p)
}

func ActivatePlan(p *model.Plan, now time.Time) {
	p.State, p.AvailableAt = model.PlanStateActive, now
	TouchPlan(p, now)
}

// TouchPlan sets UpdatedAt to now, unless UpdatedAt is later. It can be later because the
// plan's last event may be ahead of the clock.
func TouchPlan(p *model.Plan, now time.Time) {
	if now.After(p.UpdatedAt) {
		p.UpdatedAt = now
	}
}

// CancelPlan cancels the plan and removes its recommendations. API section: "States and
// transitions".
func CancelPlan(p *model.Plan, now time.Time) {
	p.State, p.Recommendations = model.PlanStateCanceled, nil
	TouchPlan(p, now)
}

// LinesOf returns order lines for recommendations, with one line per variant.
func LinesOf(recommended []model.Recommendation) []model.Line {
	lines := make([]model.Line, 0, len(recommended))
	for _, r := range recommended {
		at := slices.IndexFunc(lines, func(l model.Line) bool { return l.VariantID == r.VariantID })
		if at >= 0 {
			lines[at].Quantity += r.UnitsToPurchase
			continue
		}
		lines = append(lines, model.Line{VariantID: r.VariantID, Quantity: r.UnitsToPurchase})
	}
	return lines
}

// less subtracts a percentage, rounded to the cent.
func less(c model.Cents, percent float64) model.Cents {
	return c - model.Cents(float64(c)*percent/100+0.5)
}
