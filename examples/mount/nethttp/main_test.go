package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/dispensary-go/dispensary/examples/mount/mounttest"
)

func TestMounted(t *testing.T) {
	t.Parallel()
	mounttest.Run(t, routes)
}

// behind mounts the routes behind a function that is called with every request.
func behind(middleware func(*http.Request)) mounttest.Mount {
	return func(webhooks http.Handler) http.Handler {
		next := routes(webhooks)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			middleware(r)
			next.ServeHTTP(w, r)
		})
	}
}

func TestBodyIsDecoded(t *testing.T) {
	t.Parallel()
	mounttest.ReportsChangedBody(t, behind(func(r *http.Request) {
		var body struct{ Tenant string }
		_ = json.NewDecoder(r.Body).Decode(&body) // the probe has none
	}))
}

// A middleware that decodes a body and encodes it again leaves the announced length. (If the
// length did not change either, there would be no way to find out why the signature is wrong.)
func TestBodyIsEncodedAgain(t *testing.T) {
	t.Parallel()
	mounttest.ReportsChangedBody(t, behind(func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var nice bytes.Buffer
		if json.Indent(&nice, body, "", "") != nil {
			nice = *bytes.NewBuffer(body) // no JSON
		}
		r.Body = io.NopCloser(&nice)
	}))
}
