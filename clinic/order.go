package clinic

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/resource"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Order is a completed or refunded order of a patient.
//
// Lists return VariantIDs and a single order returns LineItems. Both return PatientID, except
// for the list of one patient's orders. It prints as its type and ID: see "Patient data" in
// package api.
// API section: "Order".
type Order struct {
	ID string `json:"id"`

	// OrderNumber is the public ID of the order, which the patient sees.
	OrderNumber string        `json:"order_number"`
	CompletedAt api.Timestamp `json:"completed_at"`

	// MSRPTotal is the total before taxes and shipping. ItemTotal is MSRPTotal less the
	// discounts. PaymentTotal includes taxes, shipping and refunds.
	MSRPTotal    api.Decimal `json:"msrp_total"`
	ItemTotal    api.Decimal `json:"item_total"`
	PaymentTotal api.Decimal `json:"payment_total"`

	VariantIDs       []string   `json:"variant_ids"`
	TreatmentPlanIDs []string   `json:"treatment_plan_ids"`
	PatientID        string     `json:"patient_id"`
	LineItems        []LineItem `json:"line_items"`
}

// LineItem is one variant of an order.
type LineItem struct {
	VariantID string `json:"variant_id"`
	Quantity  int    `json:"quantity"`
}

// Orders calls the order endpoints. Get it from [Service].
type Orders struct{ t *transport.Client }

// Get returns one order with its line items. An unknown ID matches
// [api.ErrNotFound].
// API section: GET /clinic/orders/<id>.
func (s Orders) Get(ctx context.Context, id string, options ...api.RequestOption) (*Order, error) {
	return transport.One[Order](ctx, s.t, transport.Call{Operation: operation.OrderGet, Path: []string{id}, Options: options})
}

// OrderListOptions filter and sort the clinic's orders. The zero value selects all orders.
// API section: GET /clinic/orders.
type OrderListOptions struct {
	PatientID       string `url:"patient_id,omitempty"`
	TreatmentPlanID string `url:"treatment_plan_id,omitempty"`
	OrderNumber     string `url:"order_number,omitempty"`

	// CompletedSince and CompletedBefore select orders by completion time, from the first
	// (inclusive) to the second (exclusive). Zero means no bound. The API filters by day, so
	// List drops the other orders of the first and the last day.
	CompletedSince  time.Time `url:"-"`
	CompletedBefore time.Time `url:"-"`

	// SortBy is the field to sort by. Empty means the platform's own order.
	SortBy    OrderSort     `url:"sort_by,omitempty"`
	SortOrder api.SortOrder `url:"order_by,omitempty"`
}

// OrderSort is a sort field of orders.
type OrderSort string

// The sort fields of orders.
const (
	OrderSortPatient       OrderSort = "patient_id"
	OrderSortTreatmentPlan OrderSort = "treatment_plan_id"
	OrderSortCompletion    OrderSort = "completed_at"
	OrderSortNumber        OrderSort = "order_number"
)

// List returns the clinic's orders that match o.
// API section: GET /clinic/orders.
func (s Orders) List(o OrderListOptions, options ...api.RequestOption) *api.List[Order] {
	completed := resource.Period{Since: o.CompletedSince, Before: o.CompletedBefore}
	query := struct {
		OrderListOptions
		Completed resource.Period `url:"completed_at"`
	}{o, completed}
	list := transport.NewList[Order](s.t, transport.Call{Operation: operation.OrderList, Query: query, Options: options})
	return resource.Filter(list, completed, func(order Order) time.Time { return order.CompletedAt.Time })
}

// ListForPatient returns a patient's orders. To filter them, use [Orders.List] with a
// PatientID.
// API section: GET /clinic/patients/<patient_id>/orders.
func (s Orders) ListForPatient(patientID string, options ...api.RequestOption) *api.List[Order] {
	return transport.NewList[Order](s.t, transport.Call{Operation: operation.PatientOrderList, Path: []string{patientID}, Options: options})
}

// Format prints type and ID only.
func (o Order) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.Order", o.ID) }

// LogValue logs type and ID only.
func (o Order) LogValue() slog.Value { return redact.LogValue("clinic.Order", o.ID) }
