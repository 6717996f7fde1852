package main

import (
	"io"
	"net/http"
	"testing"

	"github.com/dispensary-go/dispensary/examples/mount/mounttest"
)

func TestStory(t *testing.T) { t.Parallel(); mounttest.Story(t, routes) }

func TestReceives(t *testing.T) { t.Parallel(); mounttest.Receives(t, routes) }

func TestBodyIsRead(t *testing.T) {
	t.Parallel()
	mounttest.ReportsChangedBody(t, func(webhooks http.Handler) http.Handler {
		next := routes(webhooks)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // for an audit log
			next.ServeHTTP(w, r)
		})
	})
}

func TestBodyIsEncodedAgain(t *testing.T) {
	t.Parallel()
	mounttest.ReportsChangedBody(t, func(webhooks http.Handler) http.Handler {
		next := routes(webhooks)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mounttest.Indent(r)
			next.ServeHTTP(w, r)
		})
	})
}
