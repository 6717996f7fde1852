// Chi mounts the webhooks in a router of github.com/go-chi/chi:
//
//	go run ./examples/mount/chi
//
// It starts a fake of the platform beside itself, and lets a patient order.
package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/dispensary-go/dispensary/examples/mount/shop"
)

func main() { shop.Main("chi", routes) }

// routes is the router of a program that does other things, too. The middlewares
// in front of the webhooks are those that leave bodies alone.
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
