package tokens_test

import (
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
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// resource is the API beside the token endpoint: it answers 401 to the tokens
// that refuses says.
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
		Site:       api.Site{Environment: oauthtest.USSandbox, BaseURL: "https://platform.example/api", AuthURL: "https://platform.example"},
		HTTPClient: &http.Client{Transport: r}, Tokens: source,
	})
	require.NoError(t, err)
	call := transport.Call{Operation: operation.New(operation.Operation{Name: "clinic.get", Method: "GET", Route: "/clinic", Scope: "clinic:read"})}
	return func() error { return transport.Do(t.Context(), conns, call) }
}

// callers connects many users, each with a token and a caller.
func (w *fixture) callers(t *testing.T, r *resource, users int) []func() error {
	t.Helper()
	w.connect(t, users, time.Hour)
	calls := make([]func() error, users)
	for i := range calls {
		calls[i] = r.caller(t, w.conns.TokenSource(fmt.Sprintf("many-%d", i)))
	}
	return calls
}

// together makes all calls at once and returns their errors.
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
func nothing(string) bool    { return false }

// While the API answers 401 to every request and the token endpoint works, no user is
// marked, and tokens are not replaced by the hundred.
func TestTemporary401ToAllUsersMarksNoUser(t *testing.T) {
	oauthtest.Each(t, oauthtest.ByName[time.Duration](3*time.Second, 10*time.Minute), func(t *testing.T, length time.Duration) {
		const users = 200
		w := newFixture(t, oauthtest.RotateAtOnce, time.Hour)
		w.platform.Delay = 50 * time.Millisecond
		r := &resource{refuses: everything}
		calls := w.callers(t, r, users)
		for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(max(time.Second, length/60)) {
			for _, err := range together(calls) {
				require.ErrorIs(t, err, api.ErrUnauthorized)
				require.NotErrorIs(t, err, oauth.ErrReauthorize)
			}
		}
		// Those under way as it shows, twice, once a minute.
		assert.LessOrEqual(t, len(w.platform.Sent()), 3*8*(1+int(length/time.Minute)))
		times := map[string]int{}
		for _, call := range w.platform.Sent() {
			times[call["refresh_token"]]++
		}
		for token, n := range times {
			assert.Equal(t, 1, n, token)
		}
		r.setRefuses(nothing)
		for _, err := range together(calls) {
			require.NoError(t, err)
		}
		marked, err := w.store.List(t.Context(), tokens.Listing{Environment: oauthtest.USSandbox, State: tokens.StateReauthorize, Limit: users})
		require.NoError(t, err)
		assert.Empty(t, marked)
	})
}

// A platform that ends all access tokens and takes the new ones is followed at once.
func TestForcedRefreshesThatHelpAreNotHeldBack(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Hour, func(t *testing.T, w *fixture) {
		w.platform.Delay = 50 * time.Millisecond
		r := &resource{refuses: nothing}
		calls := w.callers(t, r, 100)
		for round := 1; round <= 3; round++ {
			var ended sync.Map
			r.mu.Lock()
			for _, access := range r.bearers {
				ended.Store(access, true)
			}
			r.refuses = func(access string) bool {
				_, was := ended.Load(access)
				return was || strings.HasPrefix(access, "access-0-")
			}
			r.mu.Unlock()
			for _, err := range together(calls) {
				require.NoError(t, err)
			}
			assert.Len(t, w.platform.Sent(), 100*round)
		}
	})
}

// One user whose tokens the API never takes does not keep the others from theirs,
// and is not refreshed by every call.
func TestOneUserWhoseNewTokensAreRefused(t *testing.T) {
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
		require.NoError(t, call(), "after a while it is tried again")
		assert.Len(t, w.platform.Sent(), 3)
	})
}

// What the platform has really ended shows at the token endpoint, and there only.
func TestARevokedUserIsMarkedByTheTokenEndpoint(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		r := &resource{refuses: everything}
		call := r.caller(t, w.source)
		require.ErrorIs(t, call(), api.ErrUnauthorized)
		w.platform.Kill("refresh-0")
		err := call()
		require.ErrorIs(t, err, api.ErrUnauthorized)
		require.NotErrorIs(t, err, oauth.ErrReauthorize)
		time.Sleep(3 * time.Minute)
		requireReauthorize(t, call(), tokens.ReasonInvalidGrant)
	})
}

// A replica that is held back still finds what another one has fetched.
func TestHeldBackRefreshFindsThePeersToken(t *testing.T) {
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
