package cookbook_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

const webhookPath = "/webhooks/dispensary"

// receive mounts a webhook handler, and prints the number of an order from a webhook.
func receive(mount func(webhooks http.Handler) http.Handler) {
	platform := start()
	defer platform.Close()
	placed := make(chan string)
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		placed <- order.Object.OrderNumber
		return nil
	})
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch}})
	must(err)
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: platform.Site().Environment,
		Secrets:     []dispensary.Secret{dispensary.NewSecret(platform.Application().WebhookSecret)},
		Challenge:   dispensary.NewSecret(platform.Application().ChallengeToken),
		Inbox:       inbox,
	})
	must(err)
	ehr := httptest.NewServer(mount(handler))
	defer ehr.Close()
	must(platform.Webhooks.Register(ehr.URL + webhookPath))
	_, _, err = platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
	must(err)
	fmt.Println("order", <-placed)
	must(inbox.Close(context.Background()))
}

// The signature covers the exact bytes, so no middleware in front of the webhooks reads bodies.
func Example_mountInServeMux() {
	parseForms := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			must(r.ParseForm())
			next.ServeHTTP(w, r)
		})
	}
	receive(func(webhooks http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/", parseForms(http.NotFoundHandler())) // pages
		mux.Handle("POST "+webhookPath, webhooks)
		return mux
	})
	// Output: order R410000004
}

func Example_mountInChi() {
	receive(func(webhooks http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(chimiddleware.RequestID, chimiddleware.Recoverer)
		r.Method(http.MethodPost, webhookPath, webhooks)
		return r
	})
	// Output: order R410000004
}

// BodyLimit is safe. Bind consumes the body, and BodyDump dumps patient data.
func Example_mountInEcho() {
	receive(func(webhooks http.Handler) http.Handler {
		e := echo.New()
		e.Use(echomiddleware.Recover(), echomiddleware.BodyLimit("2M"))
		e.POST(webhookPath, echo.WrapHandler(webhooks))
		return e
	})
	// Output: order R410000004
}
