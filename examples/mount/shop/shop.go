// Package shop is what the examples around it mount: a program that ships what
// patients order, with an inbox in a file. The webhooks of a real program look
// like this; where it keeps its router is what the examples differ in.
package shop

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// WebhookPath is where the examples mount the webhooks.
const WebhookPath = "/dispensary/webhooks"

// Settings are what a real program reads from its configuration.
type Settings struct {
	Environment dispensary.Environment
	Secret      dispensary.Secret // of the signatures
	Challenge   dispensary.Secret
	Database    string // a file
	Keys        *seal.KeyRing
	Logger      *slog.Logger // nil is silent

	// AcceptTimeout is how long storing an event may take; 0 is the default.
	AcceptTimeout time.Duration

	// Ship is what happens with an order.
	Ship func(context.Context, events.OrderEvent) error

	// Observe is called after every request; nil disables it.
	Observe func(context.Context, webhook.Observation)
}

// Shop is the program without its router.
type Shop struct {
	// Webhooks is to be mounted.
	Webhooks http.Handler

	inbox *sqlinbox.Inbox
}

// Open opens the inbox, whose workers start with what they left last time.
func Open(s Settings) (*Shop, error) {
	var router webhook.Router
	router.OnOrderPlaced(s.Ship)
	inbox, err := sqlinbox.Open(s.Database, sqlinbox.Config{
		Work: webhook.Work{Handle: router.Dispatch, Logger: s.Logger},
		Seal: s.Keys,
	})
	if err != nil {
		return nil, err
	}
	webhooks, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: s.Environment,
		Secrets:     []dispensary.Secret{s.Secret},
		Challenge:   s.Challenge,
		Inbox:       inbox,
		Logger:      s.Logger,
		Observer:    webhook.Observer{RequestEnd: s.Observe},

		AcceptTimeout: s.AcceptTimeout,
	})
	if err != nil {
		return nil, errors.Join(err, inbox.Close(context.Background()))
	}
	return &Shop{Webhooks: webhooks, inbox: inbox}, nil
}

// Close waits for the orders that are being shipped. Stop the server first.
func (s *Shop) Close(ctx context.Context) error { return s.inbox.Close(ctx) }
