package tokens_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// resource is the API without the token endpoint. It responds with 401 if refuses returns true
// for the token.
type resource struct {
	refuses func(access string) bool

	mu      sync.Mutex
	bearers []string
}

func (r *resource) RoundTrip(request *http.Request) (*http.Response, error) {
	time.Sleep(50 * time.Millisecond)
	access := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bearers = append(r.bearers, access)
	if r.refuses(access) {
		return oauthtest.Respond(http.StatusUnauthorized, `{"error":"The access token expired"}`), nil
	}
	return oauthtest.Respond(http.StatusOK, `{}`), nil
}

func (r *resource) setRefuses(refuses func(access string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = refuses
}

// caller returns a function that calls the API as the source's user.
func (r *resource) caller(t *testing.T, source api.TokenSource) func() error {
	t.Helper()
	conns, err := transport.New(transport.Config{
		Site:      api.Site{Environment: oauthtest.USSandbox, BaseURL: "https://platform.example/api", AuthURL: "https://platform.example"},
		Transport: r, Tokens: source,
	})
	require.NoError(t, err)
	call := transport.Call{Operation: operation.New(operation.Operation{Name: "clinic.get", Method: "GET", Route: "/clinic", Scope: "clinic:read"})}
	return func() error { return transport.Do(t.Context(), conns, call) }
}

// clinicOf returns a function that asks the API for the clinic of a token.
func (r *resource) clinicOf(t *testing.T) func(*settings) {
	return func(c *settings) {
		c.Tokens.Clinic = func(_ context.Context, _ tokenstore.Key, token api.AccessToken) (oauth.Clinic, error) {
			return clinic, r.caller(t, fixed(token))()
		}
	}
}

// fixed is a source of one token.
type fixed api.AccessToken

func (f fixed) Token(context.Context) (api.AccessToken, error) { return api.AccessToken(f), nil }

// callers connects many users and returns a caller for each.
func (w *fixture) callers(t *testing.T, r *resource, users int) []func() error {
	t.Helper()
	w.connect(t, users, time.Hour)
	calls := make([]func() error, users)
	for i := range calls {
		calls[i] = r.caller(t, w.conns.TokenSource(fmt.Sprintf("many-%d", i)))
	}
	return calls
}

// together runs all calls at once and returns their errors.
func together(calls []func() error) []error {
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() { errs[i] = call() })
	}
	wg.Wait()
	return errs
}

func everything(string) bool { return true }

// A platform may respond to a refresh with the token that it has just rejected.
func TestRefreshIsForcedEveryTwoMinutes(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.platform.Around = func(string, func() *http.Response) (*http.Response, error) {
			return oauthtest.Respond(http.StatusOK, `{"oauth":{"access_token":"access-0","refresh_token":"refresh-0","expires_in":7200}}`), nil
		}
		call := (&resource{refuses: everything}).caller(t, w.source)
		calls := []func() error{call, call, call, call, call}
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
			for _, err := range together(calls) {
				require.ErrorIs(t, err, api.ErrUnauthorized)
			}
		}
		assert.Len(t, w.platform.Sent(), 5)
	})
}

// Many users get one 401 each while the token endpoint is slow.
func TestForcedRefreshesRunInParallel(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Hour, func(t *testing.T, w *fixture) {
		w.platform.Delay = 9 * time.Second
		r := &resource{refuses: func(access string) bool { return strings.HasPrefix(access, "access-0-") }}
		calls := w.callers(t, r, 400)
		began := time.Now()
		for _, err := range together(calls) {
			require.NoError(t, err)
		}
		assert.Less(t, time.Since(began), 30*time.Second)
		assert.Len(t, w.platform.Sent(), 400)
	})
}

// If the API rejects all tokens of one user, it does not block the others. Calls of this user
// do not force further refreshes.
func TestRejectedNewTokensForceOneRefresh(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		r := &resource{refuses: everything}
		call := r.caller(t, w.source)
		for range 100 {
			require.ErrorIs(t, call(), api.ErrUnauthorized)
		}
		assert.Len(t, w.platform.Sent(), 1)
		other := w.callers(t, r, 1)[0]
		r.setRefuses(func(access string) bool { return access == "access-0-0" || access == "access-1" })
		require.NoError(t, other())
		time.Sleep(3 * time.Minute)
		require.NoError(t, call(), "a refresh is forced again after 2 minutes")
		assert.Len(t, w.platform.Sent(), 3)
	})
}

// A replica in the pause after a forced refresh still finds the token of another replica.
func TestPausedForcedRefreshFindsPeerToken(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		r := &resource{refuses: everything}
		call := r.caller(t, w.source)
		require.ErrorIs(t, call(), api.ErrUnauthorized)
		w.saveAccess(t, "access-peer", 2*time.Hour)
		r.setRefuses(func(access string) bool { return access != "access-peer" })
		require.NoError(t, call())
		assert.Len(t, w.platform.Sent(), 1)
	})
}
