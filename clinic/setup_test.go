package clinic_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// bench is a platform, and its clinic as the first practitioner sees it.
type bench struct {
	clinic.Service
	Server *dispensarytest.Server
}

func start(t *testing.T, options ...dispensarytest.Option) *bench {
	t.Helper()
	platform := dispensarytest.New(t, options...)
	return &bench{Service: platform.Client(model.User{}).Clinic, Server: platform}
}
