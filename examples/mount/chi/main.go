// Chi mounts the webhook handler in a router of github.com/go-chi/chi:
//
//	go run ./examples/mount/chi
//
// It also starts a fake platform, and a patient places an order.
package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/dispensary-go/dispensary/examples/mount/shop"
)

func main() { shop.Main("chi", routes) }

// routes is the router of a program with other routes. No middleware in front of the webhooks reads or
// changes bodies.
func routes(webhooks http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.RequestID, middleware.Recoverer)
	r.Method(http.MethodPost, shop.WebhookPath, webhooks)
	r.Group(func(r chi.Router) {
		r.Use(middleware.AllowContentType("application/json"))
		r.Get("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the shop\n")) })
	})
	return r
}
