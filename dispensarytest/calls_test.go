package dispensarytest_test

import (
	"net/http"
	"testing"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
)

func init() {
	dispensarytest.CallRequests = func(t testing.TB, fake *dispensarytest.Server) func(operation string) (*http.Request, []byte) {
		f := calltest.On(t, fake)
		return func(operation string) (*http.Request, []byte) { return calltest.Request(t, f, operation) }
	}
}
