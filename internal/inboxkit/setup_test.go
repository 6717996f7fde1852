package inboxkit_test

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

const marked = "Zaphod-Marked" // stands for patient data

var (
	orderKey = webhook.Key{Environment: api.USSandbox, EventID: "evt_1", IntegrationID: "in_1"}
	errDown  = errors.New("the database is down")
)

var (
	sandbox = api.USSandbox
	now     = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// delivery returns an accepted event with the given id.
func delivery(id string) webhook.Delivery {
	return webhook.Delivery{
		Key:        webhook.Key{Environment: sandbox, EventID: id, IntegrationID: "in_1"},
		Type:       events.TypeOrderPlaced,
		ReceivedAt: time.Now(),
		Body:       []byte(`{"event":{"id":"` + id + `","type":"order.placed","data":{"order":{"id":"or_1"}}}}`),
	}
}

func succeed(context.Context, events.Event) error { return nil }
func fail(context.Context, events.Event) error    { return errDown }
