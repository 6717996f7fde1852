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
	"github.com/dispensary-go/dispensary/internal/resourcetest"
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
			single.LineItems = append(single.LineItems, clinic.LineItem{VariantID: line.VariantID, Quantity: api.Int(line.Quantity)})
			inList.VariantIDs = append(inList.VariantIDs, line.VariantID)
		}
		requireOrder(t, inList, held.CompletedAt, listed[i])
		got, err := b.Orders.Get(t.Context(), held.ID)
		require.NoError(t, err)
		requireOrder(t, single, held.CompletedAt, *got)
	}
}

func TestOrderRefunds(t *testing.T) {
	t.Parallel()
	b := start(t)
	held := b.Server.Orders.All()[0]
	refunded, err := b.Server.Orders.Refund(held.ID, 100)
	require.NoError(t, err)
	got, err := b.Orders.Get(t.Context(), held.ID)
	require.NoError(t, err)
	assert.Equal(t, api.Decimal(refunded.PaymentTotal.String()), got.PaymentTotal)
	assert.InDelta(t, float64(held.PaymentTotal)/100-1, got.PaymentTotal.Float64(), 0.001)
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

func TestOrderFilters(t *testing.T) {
	t.Parallel()
	b := start(t)
	held := b.Server.Orders.All()
	require.Len(t, held, 3)
	second := held[1]
	day := api.DateOf(second.CompletedAt)
	for name, test := range map[string]struct {
		options clinic.OrderListOptions
		want    []model.Order
	}{
		"none":          {clinic.OrderListOptions{}, held},
		"patient":       {clinic.OrderListOptions{PatientID: second.PatientID}, held[1:2]},
		"plan":          {clinic.OrderListOptions{TreatmentPlanID: second.PlanIDs[0]}, held[1:2]},
		"number":        {clinic.OrderListOptions{OrderNumber: second.Number}, held[1:2]},
		"on the day":    {clinic.OrderListOptions{CompletedAt: api.DateOn(day)}, held[1:2]},
		"before":        {clinic.OrderListOptions{CompletedAt: api.DateBefore(day)}, held[:1]},
		"after":         {clinic.OrderListOptions{CompletedAt: api.DateAfter(day)}, held[2:]},
		"between":       {clinic.OrderListOptions{CompletedAt: api.DateRange(api.DateOf(held[0].CompletedAt), day)}, held[:2]},
		"contradictory": {clinic.OrderListOptions{PatientID: second.PatientID, OrderNumber: held[0].Number}, nil},
	} {
		want := resourcetest.IDs(test.want, func(o model.Order) string { return o.ID })
		got := resourcetest.IDs(resourcetest.Collect(t, b.Orders.All(t.Context(), test.options)), func(o clinic.Order) string { return o.ID })
		assert.Equal(t, want, got, name)
	}
	b.Server.Journal().CheckNoUnexpected(t)
	b.Server.Journal().Reset()
	_, err := b.Orders.List(t.Context(), clinic.OrderListOptions{CompletedAt: api.DateRange(day, api.Date{Year: 2000, Month: 1, Day: 1})})
	resourcetest.RequireUnsent(t, b.Server, err, "orders.list", "completed_at")
	_, err = b.Orders.List(t.Context(), clinic.OrderListOptions{CompletedAt: api.DateOn(api.Date{Year: 2026, Month: 2, Day: 30})})
	resourcetest.RequireUnsent(t, b.Server, err, "orders.list", "completed_at")
}

func TestOrderSorts(t *testing.T) {
	t.Parallel()
	b := start(t)
	for sortBy, key := range map[clinic.OrderSort]func(clinic.Order) string{
		clinic.OrdersByPatient:       func(o clinic.Order) string { return o.PatientID },
		clinic.OrdersByTreatmentPlan: func(o clinic.Order) string { return o.TreatmentPlanIDs[0] },
		clinic.OrdersByCompletion:    func(o clinic.Order) string { return o.CompletedAt.UTC().Format(time.RFC3339) },
		clinic.OrdersByNumber:        func(o clinic.Order) string { return o.OrderNumber },
	} {
		up := resourcetest.IDs(resourcetest.Collect(t, b.Orders.All(t.Context(), clinic.OrderListOptions{SortBy: sortBy, Order: api.Ascending})), key)
		down := resourcetest.IDs(resourcetest.Collect(t, b.Orders.All(t.Context(), clinic.OrderListOptions{SortBy: sortBy, Order: api.Descending})), key)
		assert.True(t, slices.IsSorted(up), sortBy)
		slices.Reverse(down)
		assert.Equal(t, up, down, sortBy)
		assert.Len(t, up, 3)
	}
	_, err := b.Orders.List(t.Context(), clinic.OrderListOptions{SortBy: "weight"})
	require.ErrorIs(t, err, api.ErrInvalid)
}
