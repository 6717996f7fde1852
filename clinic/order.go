package clinic

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Order is a completed or refunded order of a patient.
//
// VariantIDs comes with lists, LineItems with a single order, and PatientID with
// both but for the list of one patient's orders.
// API section: "Order".
type Order struct {
	ID string `json:"id"`

	// OrderNumber is the id that the patient sees.
	OrderNumber string        `json:"order_number"`
	CompletedAt api.Timestamp `json:"completed_at"`

	// MSRPTotal is before taxes and shipping; ItemTotal is the same less the
	// discounts; PaymentTotal includes taxes, shipping and refunds.
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
	VariantID string  `json:"variant_id"`
	Quantity  api.Int `json:"quantity"`
}

// Orders calls the order endpoints. Get it from [Service].
type Orders struct{ t *transport.Client }

// Get returns one order with its line items. An unknown id matches
// [api.ErrNotFound].
// API section: GET /clinic/orders/<id>.
func (s Orders) Get(ctx context.Context, id string, options ...api.RequestOption) (*Order, error) {
	return transport.One[Order](ctx, s.t, transport.Call{Operation: operation.OrderGet, Path: []string{id}, Options: options})
}

// Format prints type and id only.
func (o Order) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.Order", o.ID) }

// LogValue logs type and id only.
func (o Order) LogValue() slog.Value { return redact.LogValue("clinic.Order", o.ID) }
