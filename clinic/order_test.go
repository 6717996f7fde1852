package clinic_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

// wantOrder is what every form of an order should have of one that the platform
// holds.
func wantOrder(held model.Order) clinic.Order {
	return clinic.Order{
		ID: held.ID, OrderNumber: held.Number, TreatmentPlanIDs: slices.Concat([]string{}, held.PlanIDs),
		MSRPTotal: api.Decimal(held.MSRPTotal.String()), ItemTotal: api.Decimal(held.ItemTotal.String()),
		PaymentTotal: api.Decimal(held.PaymentTotal.String()),
	}
}

// requireOrder compares an order with the platform's. Times are compared as
// instants: the platform writes them with the offset of its time zone.
func requireOrder(t *testing.T, want clinic.Order, completed time.Time, got clinic.Order) {
	t.Helper()
	assert.True(t, got.CompletedAt.Equal(completed.Truncate(time.Millisecond)), "%s is not %s", got.CompletedAt, completed)
	got.CompletedAt = api.Timestamp{}
	assert.EqualExportedValues(t, want, got)
}

func TestOrders(t *testing.T) {
	t.Parallel()
	b := start(t)
	listed := resourcetest.Walk(t, 2, func(p api.Paging) clinic.OrderListOptions { return clinic.OrderListOptions{Paging: p} },
		b.Orders.List, b.Orders.Pages, b.Orders.All)
	require.Len(t, listed, len(b.Server.Orders.All()))
	for i, held := range b.Server.Orders.All() {
		single := wantOrder(held)
		single.PatientID = held.PatientID
		inList := single
		for _, line := range held.Lines {
			single.LineItems = append(single.LineItems, clinic.LineItem{VariantID: line.VariantID, Quantity: line.Quantity})
			inList.VariantIDs = append(inList.VariantIDs, line.VariantID)
		}
		requireOrder(t, inList, held.CompletedAt, listed[i])
		got, err := b.Orders.Get(t.Context(), held.ID)
		require.NoError(t, err)
		requireOrder(t, single, held.CompletedAt, *got)
	}
}

func TestOrdersOfAPatient(t *testing.T) {
	t.Parallel()
	b := start(t)
	patient := b.Server.Patients.All()[0].ID
	for range 2 {
		_, _, err := b.Server.Orders.Place(patient, model.NewOrder{})
		require.NoError(t, err)
	}
	orders := resourcetest.WalkOf(t, 2, patient, func(p api.Paging) clinic.PatientOrderListOptions { return clinic.PatientOrderListOptions{Paging: p} },
		b.Orders.ListForPatient, b.Orders.PagesForPatient, b.Orders.AllForPatient)
	assert.Len(t, orders, 3)
	for _, order := range orders {
		held, known := b.Server.Orders.Get(order.ID)
		require.True(t, known)
		assert.Equal(t, patient, held.PatientID)
		assert.Empty(t, order.PatientID, "one patient's list leaves it out")
		assert.NotEmpty(t, order.VariantIDs)
	}
}

func TestOrderFiltersAreChecked(t *testing.T) {
	t.Parallel()
	b := start(t)
	_, err := b.Orders.List(t.Context(), clinic.OrderListOptions{CompletedAt: api.DateRange(api.DateOf(b.Server.Orders.All()[0].CompletedAt), api.Date{Year: 2000, Month: 1, Day: 1})})
	resourcetest.RequireUnsent(t, b.Server, err, "orders.list", "completed_at")
	_, err = b.Orders.List(t.Context(), clinic.OrderListOptions{CompletedAt: api.DateOn(api.Date{Year: 2026, Month: 2, Day: 30})})
	resourcetest.RequireUnsent(t, b.Server, err, "orders.list", "completed_at")
}
