// Nethttp mounts the webhook handler in a ServeMux of net/http:
//
//	go run ./examples/mount/nethttp
//
// It also starts a fake platform, and a patient places an order.
package main

import (
	"log/slog"
	"net/http"

	"github.com/dispensary-go/dispensary/examples/mount/shop"
)

func main() { shop.Main("nethttp", routes) }

// routes is the router of a program with other routes. No middleware reads the bodies of webhooks, because
// the signature covers the exact bytes.
func routes(webhooks http.Handler) http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the shop\n")) })

	mux := http.NewServeMux()
	mux.Handle("/", parseForms(pages))
	mux.Handle("POST "+shop.WebhookPath, webhooks)
	return logged(mux)
}

// parseForms is a middleware that reads bodies.
func parseForms(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, "cannot read the form", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// logged is a middleware that does not read bodies. It is safe for all routes.
func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		slog.DebugContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path)
		next.ServeHTTP(w, r)
	})
}
