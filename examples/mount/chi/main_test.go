package main

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/dispensary-go/dispensary/examples/mount/mounttest"
)

func TestStory(t *testing.T) { t.Parallel(); mounttest.Story(t, routes) }

func TestReceives(t *testing.T) { t.Parallel(); mounttest.Receives(t, routes) }

// A middleware for all routes that looks at JSON bodies takes them from the
// webhooks.
func TestBodyIsRead(t *testing.T) {
	t.Parallel()
	mounttest.ReportsChangedBody(t, func(webhooks http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var body struct{ Tenant string }
				_ = json.NewDecoder(r.Body).Decode(&body) // the probe has none
				next.ServeHTTP(w, r)
			})
		})
		r.Mount("/", routes(webhooks))
		return r
	})
}

func TestBodyIsEncodedAgain(t *testing.T) {
	t.Parallel()
	mounttest.ReportsChangedBody(t, func(webhooks http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mounttest.Indent(r)
				next.ServeHTTP(w, r)
			})
		})
		r.Mount("/", routes(webhooks))
		return r
	})
}
