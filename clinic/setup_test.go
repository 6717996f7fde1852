package clinic_test

import (
	"net/http"
	"testing"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

// bench is a platform, and its clinic as the first practitioner sees it.
type bench struct {
	clinic.Service
	Server *dispensarytest.Server
	sent   *resourcetest.LastBody
}

func start(t *testing.T, options ...dispensarytest.Option) *bench {
	t.Helper()
	platform := dispensarytest.New(t, options...)
	sent := &resourcetest.LastBody{Base: platform.HTTPClient().Transport}
	client := platform.Client(model.User{}, dispensary.WithHTTPClient(&http.Client{Transport: sent}))
	return &bench{Service: client.Clinic, Server: platform, sent: sent}
}
