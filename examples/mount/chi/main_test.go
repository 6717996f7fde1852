package main

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/dispensary-go/dispensary/examples/mount/mounttest"
)

func TestMounted(t *testing.T) {
	t.Parallel()
	mounttest.Run(t, routes, func(middleware func(*http.Request)) mounttest.Mount {
		return func(webhooks http.Handler) http.Handler {
			r := chi.NewRouter()
			r.Use(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					middleware(r)
					next.ServeHTTP(w, r)
				})
			})
			r.Mount("/", routes(webhooks))
			return r
		}
	})
}
