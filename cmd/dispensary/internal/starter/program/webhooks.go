package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/webhook"
)

// orderPlaced handles the event of an order. An event can be handled more than once, so
// repeating it must do no harm. A failed event is retried, later each time.
//
// The platform does not document that the event contains the whole order, so orderPlaced reads it
// from the API as any connected user of the clinic. If none is connected, the event becomes a dead letter,
// which an operator replays later.
func (a *app) orderPlaced(ctx context.Context, event events.OrderEvent) error {
	environment := webhook.HandlingFrom(ctx).Key.Environment
	clinic, err := a.dispensary.Accounts.ForClinic(ctx, environment, event.ClinicID, accounts.ClinicOptions{})
	if errors.Is(err, dispensary.ErrReauthorize) {
		return webhook.Permanent(webhook.WithReason("not_connected", err))
	}
	if err != nil {
		return err
	}
	order, err := clinic.Client.Clinic.Orders.Get(ctx, event.Object.ID)
	if err != nil {
		return err
	}
	a.orders.save(order.ID, order.OrderNumber)
	return nil
}

// orders stands for a table of your database. See sqlinbox.InTransaction and
// riverinbox.InTransaction for a table that changes together with the state of the event.
type orders struct {
	mu      sync.Mutex
	numbers map[string]string // by ID
}

func (o *orders) save(id, number string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.numbers == nil {
		o.numbers = map[string]string{}
	}
	o.numbers[id] = number
}

// list returns the numbers of all orders.
func (o *orders) list() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Values(o.numbers))
}
