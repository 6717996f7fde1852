package httpapi

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func listPatientOrders(c *call, w *store.World) (reply, error) {
	patient, known := w.PatientOf(c.clinicID(), c.arg())
	if !known {
		return reply{}, notFound()
	}
	return listOf(c, w.Orders.Span(store.OrdersByPatient, c.clinicID(), patient.ID).Created(), view.PatientOrder), nil
}

func getOrder(c *call, w *store.World) (reply, error) {
	o, known := w.Orders.Get(c.arg())
	if !known || o.ClinicID != c.clinicID() {
		return reply{}, notFound()
	}
	return ok(view.Order(o)), nil
}

func listOrders(c *call, w *store.World) (reply, error) {
	completed, err := c.params.days("completed_at")
	if err != nil {
		return reply{}, err
	}
	field, descending, err := c.params.order("patient_id", "treatment_plan_id", "completed_at", "order_number")
	if err != nil {
		return reply{}, err
	}
	sorted, whose := store.OrderFields[field], c.clinicID()
	patient, plan, number := c.params.get("patient_id"), c.params.get("treatment_plan_id"), c.params.get("order_number")
	var few table.Span[*model.Order]
	switch {
	case patient != "":
		few = w.Orders.Span(store.OrdersByPatient, whose, patient)
	case number != "":
		few = w.Orders.Span(store.OrdersByNumber, whose, number)
	case plan != "":
		few = w.Orders.Span(store.OrdersByPatient, whose, w.PatientOfPlan(plan)) // an order is for plans of one patient
	default:
		return listOf(c, w.ClinicOrders(whose, completed, sorted, field == "" && !descending, descending), view.OrderItem), nil
	}
	rows := table.Keep(few.Created().All(), func(o *model.Order) bool {
		return completed.Holds(o.CompletedAt) && (number == "" || number == o.Number) && (plan == "" || slices.Contains(o.PlanIDs, plan))
	})
	if field != "" || descending {
		slices.SortStableFunc(rows, w.Orders.Indexes[sorted].Comparer(descending))
	}
	return listOf(c, table.Rows(rows), view.OrderItem), nil
}
