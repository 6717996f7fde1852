package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	dispensaryotel "github.com/dispensary-go/dispensary/otel"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// app is an integrator's program, observed in every part.
type app struct {
	platform *dispensarytest.Server
	client   *dispensary.Client // of a practitioner
	inbox    *memoryinbox.Inbox
	unwatch  func() error
	server   *httptest.Server // stands for the program's own
}

// newApp shows the six places in which a Telemetry is given.
func newApp(platform *dispensarytest.Server, telemetry *dispensaryotel.Telemetry) (*app, error) {
	a := &app{platform: platform}
	registered, site := platform.Application(), platform.Site()

	application, err := oauth.New(telemetry.OAuth(oauth.Config{ // 1: requests for tokens
		Site: site, ClientID: registered.ClientID, ClientSecret: dispensary.NewSecret(registered.ClientSecret),
		RedirectURL: registered.RedirectURI,
	}))
	if err != nil {
		return nil, err
	}
	store := tokens.NewMemoryStore()
	conns, err := tokens.NewConnections(telemetry.Tokens(tokens.Config{Client: application, Store: store})) // 2: refreshes
	if err != nil {
		return nil, err
	}
	client, err := dispensary.New(site, dispensary.WithClinicKey(dispensary.NewSecret(platform.ClinicKey())), telemetry.Client()) // 3: calls
	if err != nil {
		return nil, err
	}
	if _, err := store.Save(context.Background(), conns.Key(user), a.lastNight()); err != nil {
		return nil, err
	}
	a.client = client.WithTokenSource(conns.TokenSource(user))

	var router webhook.Router
	router.OnOrderPlaced(func(ctx context.Context, e events.OrderEvent) error {
		_, err := a.client.Clinic.Orders.Get(ctx, e.Data.ID) // in the trace of the attempt
		return err
	})
	// 4: the handling of events
	if a.inbox, err = memoryinbox.New(memoryinbox.Config{Work: telemetry.Work(webhook.Work{Handle: router.Dispatch})}); err != nil {
		return nil, err
	}
	if a.unwatch, err = telemetry.WatchInbox("orders", a.inbox); err != nil { // 5: how many wait, and since when
		return nil, err
	}
	handler, err := webhook.NewHandler(telemetry.Webhook(webhook.HandlerConfig{ // 6: their arrival
		Environment: site.Environment, Inbox: a.inbox,
		Secrets: []dispensary.Secret{dispensary.NewSecret(registered.WebhookSecret)}, Challenge: dispensary.NewSecret(registered.ChallengeToken),
	}))
	if err != nil {
		return nil, err
	}
	a.server = httptest.NewServer(handler)
	return a, nil
}

// user is the key of a practitioner in the program's own database.
const user = "practitioner-7"

// lastNight is the practitioner's token, which has ended since.
func (a *app) lastNight() oauth.Token {
	token := a.platform.Tokens.Issue(a.platform.Users()[0])
	return oauth.Token{
		Environment: a.platform.Site().Environment, ExpiresAt: time.Now().Add(-time.Hour),
		AccessToken: dispensary.NewSecret(token.AccessToken), RefreshToken: dispensary.NewSecret(token.RefreshToken),
	}
}

// call reads the clinic while the platform has a bad moment.
func (a *app) call(ctx context.Context) error {
	a.platform.Fault(model.Fault{Operation: "clinic.get", Effect: model.ErrorStatus, Status: 503, Times: 1})
	_, err := a.client.Clinic.Get(ctx)
	return err
}

// receive lets a patient order, and waits for the webhook of it.
func (a *app) receive(ctx context.Context) error {
	if err := a.platform.Webhooks.Register(a.server.URL, "order.placed"); err != nil {
		return err
	}
	patient := a.platform.Patients.All()[0]
	_, event, err := a.platform.Orders.Place(patient.ID, model.NewOrder{})
	if err != nil {
		return err
	}
	return a.platform.Webhooks.WaitDelivered(ctx, event.ID)
}

// close waits for the requests and for the events that they brought.
func (a *app) close(ctx context.Context) error {
	a.server.Close()
	return errors.Join(a.unwatch(), a.inbox.Close(ctx))
}
