package main

import (
	"net/http"
	"testing"

	"github.com/dispensary-go/dispensary/examples/mount/mounttest"
)

func TestMounted(t *testing.T) {
	t.Parallel()
	mounttest.Run(t, routes, func(middleware func(*http.Request)) mounttest.Mount {
		return func(webhooks http.Handler) http.Handler {
			next := routes(webhooks)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				middleware(r)
				next.ServeHTTP(w, r)
			})
		}
	})
}
