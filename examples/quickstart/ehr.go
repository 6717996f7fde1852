package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/webhook"
)

// currentUser represents the session of the signed-in user.
const currentUser = "practitioner-7"

// openEHR opens the EHR: the accounts of its users, and its webhooks.
func openEHR(ctx context.Context, config integration.Config, orders chan<- events.OrderEvent) (*integration.Integration, error) {
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		orders <- order
		return nil
	})
	return integration.Open(ctx, config, integration.Setup{
		Work:    webhook.Work{Handle: router.Dispatch, Order: webhook.ByPatient},
		Connect: connect.Config{User: func(*http.Request) (string, error) { return currentUser, nil }},
		Accounts: accounts.Config{Tokens: tokens.Config{
			// A real EHR accepts only accounts of the user's own clinic, see examples/ehr.
			Verify: func(context.Context, tokens.Authorization) error { return nil },
		}},
		Drain: -1, // no load balancer
	})
}

// serve serves until ctx is canceled.
func serve(ctx context.Context, app *integration.Integration, listener net.Listener) error {
	mux := http.NewServeMux()
	app.Mount(mux) // the browser flow, the webhooks, the health checks
	mux.HandleFunc("GET /settings", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("connected\n")) })
	return app.Serve(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}, listener)
}
