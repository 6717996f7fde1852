package dispensarytest

import (
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// orderView is an order; which fields it has depends on the response.
// API section: "Order".
type orderView struct {
	ID           string     `json:"id"`
	Number       string     `json:"order_number"`
	CompletedAt  string     `json:"completed_at"`
	MSRPTotal    Cents      `json:"msrp_total"`
	ItemTotal    Cents      `json:"item_total"`
	PaymentTotal Cents      `json:"payment_total"`
	VariantIDs   []string   `json:"variant_ids,omitempty"` // in lists
	PlanIDs      []string   `json:"treatment_plan_ids"`
	PatientID    string     `json:"patient_id,omitempty"` // in single-order and all-orders responses
	Lines        []lineView `json:"line_items,omitempty"` // in the single-order response
}

type lineView struct {
	VariantID string `json:"variant_id"`
	Quantity  int    `json:"quantity"`
}

func viewOrderBase(o *Order) orderView {
	return orderView{
		ID: o.ID, Number: o.Number, CompletedAt: o.CompletedAt.Format("2006-01-02T15:04:05.000-07:00"),
		MSRPTotal: o.MSRPTotal, ItemTotal: o.ItemTotal, PaymentTotal: o.PaymentTotal,
		PlanIDs: append([]string{}, o.PlanIDs...), // never null
	}
}

// viewPatientOrder is an order in a patient's list.
func viewPatientOrder(o *Order) orderView {
	view := viewOrderBase(o)
	for _, l := range o.Lines {
		view.VariantIDs = append(view.VariantIDs, l.VariantID)
	}
	return view
}

// viewOrderItem is an order in the list of all orders.
func viewOrderItem(o *Order) orderView {
	view := viewPatientOrder(o)
	view.PatientID = o.PatientID
	return view
}

// viewOrder is an order in the single-order response and in event data.
func viewOrder(o *Order) orderView {
	view := viewOrderBase(o)
	view.PatientID = o.PatientID
	for _, l := range o.Lines {
		view.Lines = append(view.Lines, lineView(l))
	}
	return view
}

func listPatientOrders(c *call, w *world) (reply, error) {
	patient, known := w.patientOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	return listOf(c, w.orders.Span(ordersByPatient, c.clinicID(), patient.ID).Created(), viewPatientOrder), nil
}

func getOrder(c *call, w *world) (reply, error) {
	o, known := w.orders.Get(c.arg())
	if !known || o.ClinicID != c.clinicID() {
		return reply{}, notFound()
	}
	return ok(viewOrder(o)), nil
}

func listOrders(c *call, w *world) (reply, error) {
	completed, err := c.params.days("completed_at")
	if err != nil {
		return reply{}, err
	}
	field, descending, err := c.params.order("patient_id", "treatment_plan_id", "completed_at", "order_number")
	if err != nil {
		return reply{}, err
	}
	sorted, whose := orderFields[field], c.clinicID()
	patient, plan, number := c.params.get("patient_id"), c.params.get("treatment_plan_id"), c.params.get("order_number")
	var few table.Span[Order]
	switch {
	case patient != "":
		few = w.orders.Span(ordersByPatient, whose, patient)
	case number != "":
		few = w.orders.Span(ordersByNumber, whose, number)
	case plan != "":
		few = w.orders.Span(ordersByPatient, whose, w.patientOfPlan(plan)) // an order is for plans of one patient
	default:
		return listOf(c, w.clinicOrders(whose, completed, sorted, field == "" && !descending, descending), viewOrderItem), nil
	}
	rows := table.Keep(few.Created().All(), func(o *Order) bool {
		return completed.holds(o.CompletedAt) && (number == "" || number == o.Number) && (plan == "" || slices.Contains(o.PlanIDs, plan))
	})
	if field != "" || descending {
		slices.SortStableFunc(rows, w.orders.Indexes[sorted].Comparer(descending))
	}
	return listOf(c, table.Rows(rows), viewOrderItem), nil
}

// patientOfPlan is the id of the patient that a plan is for; "" where there is none.
func (w *world) patientOfPlan(id string) string {
	if plan, known := w.plans.Get(id); known {
		return plan.PatientID
	}
	return ""
}

// orderFields are the ways that a list of orders is sorted; without a field it is the
// time.
var orderFields = map[string]int{
	"": ordersByTime, "patient_id": ordersByPatient, "treatment_plan_id": ordersByPlan, "order_number": ordersByNumber, "completed_at": ordersByTime,
}

// clinicOrders lists the orders that a clinic's patients completed in some days.
func (w *world) clinicOrders(clinic string, in days, by int, unsorted, descending bool) table.List[Order] {
	switch {
	case unsorted && !in.set:
		return w.orders.Span(ordersByClinic, clinic).Created()
	case by != ordersByTime && !in.set:
		return w.orders.Span(by, clinic).Sorted(descending)
	}
	held := w.orders.SpanWithin(ordersByTime, func(o *Order) int { return in.place(o.CompletedAt) }, clinic)
	switch {
	case unsorted:
		return held.Created()
	case by == ordersByTime:
		return held.Sorted(descending)
	default:
		return w.orders.Span(by, clinic).Sorted(descending).Keep(held.Len(), func(o *Order) bool { return in.holds(o.CompletedAt) })
	}
}

// sortable writes a time so that text sorts as the times do.
func sortable(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000") }
