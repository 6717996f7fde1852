// Nethttp mounts the webhooks in a ServeMux of net/http:
//
//	go run ./examples/mount/nethttp
//
// It starts a fake of the platform beside itself, and lets a patient order.
package main

import (
	"log/slog"
	"net/http"

	"github.com/dispensary-go/dispensary/examples/mount/shop"
)

func main() { shop.Main("nethttp", routes) }

// routes is the router of a program that does other things, too. The webhooks
// stand outside of what reads bodies: their signature is made of the exact bytes.
func routes(webhooks http.Handler) http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the shop\n")) })

	mux := http.NewServeMux()
	mux.Handle("/", parseForms(pages))
	mux.Handle("POST "+shop.WebhookPath, webhooks)
	return logged(mux)
}

// parseForms is a middleware that reads bodies, as many do.
func parseForms(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, "cannot read the form", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// logged is a middleware that does not, which can stand in front of everything.
func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		slog.DebugContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path)
		next.ServeHTTP(w, r)
	})
}
