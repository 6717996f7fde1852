package httpapi

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func listPatientOrders(c *call, w *store.World, patient *model.Patient) (reply, error) {
	return listOf(c, table.Where(w.Orders, func(o *model.Order) bool { return o.PatientID == patient.ID }), view.PatientOrder), nil
}

func getOrder(c *call, w *store.World) (reply, error) {
	o, known := w.Orders.Rows[c.arg]
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
	patient, plan, number := c.params.get("patient_id"), c.params.get("treatment_plan_id"), c.params.get("order_number")
	rows := table.Where(w.Orders, func(o *model.Order) bool {
		return o.ClinicID == c.clinicID() && completed.Holds(o.CompletedAt) && (patient == "" || patient == o.PatientID) &&
			(number == "" || number == o.Number) && (plan == "" || slices.Contains(o.PlanIDs, plan))
	})
	switch {
	case field == "patient_id":
		sortRows(rows, descending, func(o *model.Order) string { return o.PatientID })
	case field == "treatment_plan_id":
		sortRows(rows, descending, store.OrderPlan)
	case field == "order_number":
		sortRows(rows, descending, func(o *model.Order) string { return o.Number })
	case field != "" || descending:
		sortRows(rows, descending, func(o *model.Order) int64 { return o.CompletedAt.UnixNano() })
	}
	return listOf(c, rows, view.OrderItem), nil
}
