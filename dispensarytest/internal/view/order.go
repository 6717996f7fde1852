package view

import (
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// orderView is an order. Its fields depend on the response. API section: "Order".
type orderView struct {
	ID           string      `json:"id"`
	Number       string      `json:"order_number"`
	CompletedAt  string      `json:"completed_at"`
	MSRPTotal    model.Cents `json:"msrp_total"`
	ItemTotal    model.Cents `json:"item_total"`
	PaymentTotal model.Cents `json:"payment_total"`
	VariantIDs   []string    `json:"variant_ids,omitempty"` // in lists
	PlanIDs      []string    `json:"treatment_plan_ids"`
	PatientID    string      `json:"patient_id,omitempty"` // in single-order and all-orders responses
	Lines        []lineView  `json:"line_items,omitempty"` // in the single-order response
}

type lineView struct {
	VariantID string `json:"variant_id"`
	Quantity  int    `json:"quantity"`
}

func OrderBase(o *model.Order) orderView {
	return orderView{
		ID: o.ID, Number: o.Number, CompletedAt: o.CompletedAt.Format("2006-01-02T15:04:05.000-07:00"),
		MSRPTotal: o.MSRPTotal, ItemTotal: o.ItemTotal, PaymentTotal: o.PaymentTotal,
		PlanIDs: append([]string{}, o.PlanIDs...), // never null
	}
}

// PatientOrder is an order in a patient's list.
func PatientOrder(o *model.Order) orderView {
	view := OrderBase(o)
	for _, l := range o.Lines {
		view.VariantIDs = append(view.VariantIDs, l.VariantID)
	}
	return view
}

// OrderItem is an order in the list of all orders.
func OrderItem(o *model.Order) orderView {
	view := PatientOrder(o)
	view.PatientID = o.PatientID
	return view
}

// Order is an order in the single-order response and in event data.
func Order(o *model.Order) orderView {
	view := OrderBase(o)
	view.PatientID = o.PatientID
	for _, l := range o.Lines {
		view.Lines = append(view.Lines, lineView(l))
	}
	return view
}
