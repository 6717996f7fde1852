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

// behind mounts the routes behind a function for every request.
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
		_ = json.NewDecoder(r.Body).Decode(&body) // a probe has no body
	}))
}

// A middleware that decodes and encodes a body again does not update Content-Length. (With the same length,
// nothing would show why the signature is wrong.)
func TestBodyIsEncodedAgain(t *testing.T) {
	t.Parallel()
	mounttest.ReportsChangedBody(t, behind(func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var nice bytes.Buffer
		if json.Indent(&nice, body, "", "") != nil {
			nice = *bytes.NewBuffer(body) // not JSON
		}
		r.Body = io.NopCloser(&nice)
	}))
}
