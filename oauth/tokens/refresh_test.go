package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

func TestRefreshKeepsOmittedFields(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(oauthtest.Responses(200, `{"oauth":{"access_token":"bare"}}`))
		w.requireToken(t, "bare")
		token := w.record(t).Token
		assert.Equal(t, "refresh-0", token.RefreshToken.Reveal())
		assert.Equal(t, "catalog:read clinic:read", token.Scope)
		assert.Equal(t, "prac-1", token.ResourceOwner.ID)
		assert.Equal(t, time.Now().Add(2*time.Hour), token.ExpiresAt)
	})
}

func TestCrashedOwnerBlocksUntilLeaseExpires(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.lease(t, defaults.LeaseTTL)
		began := time.Now()
		w.requireToken(t, "access-1")
		assert.GreaterOrEqual(t, time.Since(began), defaults.LeaseTTL)
		assert.LessOrEqual(t, time.Since(began), defaults.LeaseTTL+2*time.Second)
		assert.Len(t, w.platform.Sent(), 1)
	})
}

func TestEndlessLeaseFailsRefresh(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.lease(t, time.Hour)
		w.requireFailure(t, tokenstore.ErrLeased)
		assert.Empty(t, w.platform.Sent())
	})
}

func TestLostResponsesMarkNoUser(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(oauthtest.Times(4, oauthtest.Loses)...) // two calls, two attempts each
		for range 2 {
			w.requireFailure(t, api.ErrMaybeApplied)
			time.Sleep(time.Minute)
		}
		w.requireToken(t, "access-5")
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)
	})
}

func TestLostResponseWithoutGraceMarksUser(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(oauthtest.Loses)
		requireMark(t, w.source)
	})
}

func TestTimeoutsFitIntoLease(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Delay = time.Hour
		slow := func(_ context.Context, _ tokenstore.Key, work func() error) error {
			time.Sleep(defaults.LeaseTTL/3 - time.Second)
			return work()
		}
		store := oauthtest.Around(w.store, map[string]oauthtest.Interception{"Lease": slow})
		began := time.Now()
		_, err := w.on(t, store).TokenSource(user).Token(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, api.ErrMaybeApplied)
		assert.LessOrEqual(t, time.Since(began), 2*defaults.LeaseTTL/3, "the rest of the lease is for the store")
		assert.Len(t, w.platform.Sent(), 2)
	})
}

func TestInvalidGrantAdoptsPeerToken(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(func(func() *http.Response) (*http.Response, error) {
			w.saveAccess(t, "access-peer", time.Hour) // before the response arrives
			return oauthtest.Respond(400, `{"error":"invalid_grant"}`), nil
		})
		w.requireToken(t, "access-peer")
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)
	})
}

func TestMarkedUserSendsNoRequest(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Kill("refresh-0")
		e := requireMark(t, w.source)
		var response *api.Error
		require.ErrorAs(t, e, &response)
		assert.Equal(t, "req-1", response.RequestID)
		assert.Equal(t, w.conns.Key(user), e.Key)
		assert.Equal(t, "prac-1", e.Owner.ID)
		address, err := e.AuthorizeURL("state-1")
		require.NoError(t, err)
		assert.Contains(t, address, "state=state-1")

		for _, conns := range []*tokens.Connections{w.conns, w.replica(t)} {
			source := conns.TokenSource(user)
			for range 10 {
				_, err = source.Token(t.Context())
				requireReauthorize(t, err, tokenstore.ReasonInvalidGrant)
				_, err = source.Refresh(t.Context(), oauthtest.FirstToken(0).Access())
				requireReauthorize(t, err, tokenstore.ReasonInvalidGrant)
			}
		}
		assert.Len(t, w.platform.Sent(), 2)
		assert.Contains(t, w.logs.String(), `"reason":"invalid_grant"`)

		w.saveAccess(t, "access-renewed", time.Hour)
		w.requireToken(t, "access-renewed")
	})
}

func TestUnreleasedLeaseExpires(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(oauthtest.Times(2, oauthtest.Responses(500, ""))...)
		w.store.Break("Release", assert.AnError)
		w.requireFailure(t, api.ErrServer)
		assert.Contains(t, w.logs.String(), "could not release a lease")
		time.Sleep(2 * time.Second)
		w.requireToken(t, "access-1")
	})
}

func TestUnstoredMarkIsReported(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Kill("refresh-0")
		w.store.Break("Fail", assert.AnError)
		requireMark(t, w.source)
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)
		assert.Contains(t, w.logs.String(), "could not store that a user must authorize again")
	})
}

func TestAddedScopesMarkUser(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		before := newConns(t, w.platform, w.store, func(c *settings) { c.Scopes = []string{"clinic:read", "catalog:read"} })
		token, err := before.Client().Exchange(t.Context(), api.NewSecret("code"))
		require.NoError(t, err)
		assert.Equal(t, "catalog:read clinic:read", token.ConfiguredScope)
		w.save(t, token)

		fewer := newConns(t, w.platform, w.store, func(c *settings) { c.Scopes = []string{"catalog:read"} })
		_, err = fewer.TokenSource(user).Token(t.Context())
		require.NoError(t, err)

		after := newConns(t, w.platform, w.store, func(c *settings) { c.Scopes = []string{"clinic:read", "catalog:read", "clinic:write"} })
		_, err = after.TokenSource(user).Token(t.Context())
		requireReauthorize(t, err, tokenstore.ReasonScopesExtended)
		assert.Equal(t, tokenstore.StateReauthorize, w.record(t).State)
		assert.Len(t, w.platform.Sent(), 1, "only the exchange")
	})
}

func TestAddedScopesRespectPeerLease(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		token := oauthtest.FirstToken(time.Hour)
		token.ConfiguredScope = "catalog:read"
		w.save(t, token)
		w.lease(t, time.Minute)
		conns := newConns(t, w.platform, w.store, func(c *settings) { c.Scopes = []string{"catalog:read", "clinic:write"} })
		_, err := conns.TokenSource(user).Token(t.Context())
		requireReauthorize(t, err, tokenstore.ReasonScopesExtended)
		assert.Equal(t, tokenstore.StateActive, w.record(t).State, "the next caller marks the user")
	})
}

// A process without data of a user reads the record once, leases it and commits.
func TestColdRefreshLoadsRecordOnce(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		w.requireToken(t, "access-1")
		for method, want := range map[string]int{"Load": 1, "Lease": 1, "Commit": 1, "Release": 0, "Fail": 0} {
			assert.Equal(t, want, w.store.Count(method), method)
		}
	})
}

// mark makes the platform reject the user's refresh token twice, wrongly.
func (w *fixture) mark(t *testing.T) {
	t.Helper()
	w.platform.Inject(oauthtest.Times(2, oauthtest.Responses(401, `{"error":"invalid_grant"}`))...)
	requireMark(t, w.source)
}

// If a platform rejects a refresh token and later accepts it again, the mark disappears
// without an action of the user.
func TestRetryRestoresMarkedUser(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		w.mark(t)
		w.requireReauthorize(t, tokenstore.ReasonInvalidGrant)
		require.Len(t, w.platform.Sent(), 2, "no retry at once")
		time.Sleep(2 * time.Minute)
		w.requireToken(t, "access-1")
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)
		assert.Equal(t, []restored{restored(w.conns.Key(user))}, eventsOf[restored](a))
	})
}

// A user who has really revoked the application causes fewer and fewer requests.
func TestRetriesOfMarkedUserSlowDown(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		peer := w.replica(t).TokenSource(user)
		w.platform.ForgetAll()
		requireMark(t, w.source)
		for end := time.Now().Add(24 * time.Hour); time.Now().Before(end); time.Sleep(10 * time.Second) {
			for _, source := range []tokens.TokenSource{w.source, peer} {
				_, err := source.Token(t.Context())
				requireReauthorize(t, err, tokenstore.ReasonInvalidGrant)
			}
		}
		sent := len(w.platform.Sent())
		assert.Less(t, sent, 2*24*60/5, "each replica waits 5 to 10 minutes")
		assert.Greater(t, sent, 24*60/10)
		assert.Len(t, eventsOf[*tokens.ReauthorizeError](a), 1, "the user is marked once")
		_, paused := w.conns.Paused()
		assert.False(t, paused)
	})
}

func TestFailingRetryKeepsMark(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.mark(t)
		time.Sleep(2 * time.Minute)
		w.platform.Inject(oauthtest.Responses(500, ""), oauthtest.Responses(500, ""))
		for range 3 {
			w.requireReauthorize(t, tokenstore.ReasonInvalidGrant)
		}
		assert.Len(t, w.platform.Sent(), 4, "the refresh was retried once")
		time.Sleep(2 * time.Minute)
		w.platform.Replace()
		w.requireToken(t, "access-1")
	})
}

func TestOtherReasonsAreNotRetried(t *testing.T) {
	oauthtest.Each(t, oauthtest.ByName[tokenstore.Reason](tokenstore.ReasonDisconnecting, "future_reason"), func(t *testing.T, reason tokenstore.Reason) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		w.fail(t, reason)
		time.Sleep(24 * time.Hour)
		w.requireReauthorize(t, reason)
		assert.Empty(t, w.platform.Sent())
	})
}

// If scopes are added to the configuration by mistake and removed again, no user must
// authorize again.
func TestRemovedScopesRestoreUser(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		token := oauthtest.FirstToken(time.Hour)
		token.ConfiguredScope = "catalog:read"
		w.save(t, token)
		mistaken := newConns(t, w.platform, w.store, func(c *settings) { c.Scopes = []string{"catalog:read", "clinic:write"} })
		_, err := mistaken.TokenSource(user).Token(t.Context())
		requireReauthorize(t, err, tokenstore.ReasonScopesExtended)
		time.Sleep(5 * time.Minute)
		_, err = mistaken.TokenSource(user).Token(t.Context())
		requireReauthorize(t, err, tokenstore.ReasonScopesExtended)
		assert.Empty(t, w.platform.Sent())
		w.requireToken(t, "access-1")
	})
}

func TestRestoreRemovesMark(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		w.mark(t)
		require.NoError(t, w.conns.Restore(t.Context(), user))
		record := w.record(t)
		assert.Equal(t, tokenstore.StateActive, record.State)
		assert.Empty(t, record.Reason)
		assert.Equal(t, "refresh-0", record.Token.RefreshToken.Reveal())
		assert.Len(t, w.platform.Sent(), 2, "Restore sends no request")
		assert.Len(t, eventsOf[restored](a), 1)
		w.requireToken(t, "access-1")

		require.NoError(t, w.conns.Restore(t.Context(), user), "Restore can be repeated")
		assert.Equal(t, "access-1", w.record(t).Token.AccessToken.Reveal())
		assert.Len(t, eventsOf[restored](a), 1)
	})
}

func TestRestoreRejectsDisconnectedUsers(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		requireReauthorize(t, w.conns.Restore(t.Context(), "nobody"), tokenstore.ReasonNotConnected)
		require.ErrorIs(t, w.conns.Restore(t.Context(), ""), api.ErrArgument)
		w.platform.Inject(oauthtest.Times(9, oauthtest.Responses(500, ""))...)
		require.Error(t, w.conns.Disconnect(t.Context(), user))
		requireReauthorize(t, w.conns.Restore(t.Context(), user), tokenstore.ReasonDisconnecting)
		assert.Equal(t, tokenstore.ReasonDisconnecting, w.record(t).Reason)
		w.store.Break("Commit", assert.AnError)
		w.platform.Replace()
		require.NoError(t, w.conns.Disconnect(t.Context(), user), "the lease was released")
	})
}

func TestStoreOutageFailsRestore(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.mark(t)
		for _, method := range []string{"Load", "Lease", "Commit"} {
			w.store.Break(method, assert.AnError)
			requireStoreError(t, w.conns.Restore(t.Context(), user), method)
			w.store.Break(method, nil)
			time.Sleep(time.Minute)
		}
		require.NoError(t, w.conns.Restore(t.Context(), user))
	})
}

// breakWhileWaiting gives the lease to a crashed replica. A method of the store fails for a
// second after 10 seconds.
func breakWhileWaiting(t *testing.T, w *fixture, method string) {
	t.Helper()
	w.lease(t, 30*time.Second)
	time.AfterFunc(10*time.Second, func() { w.store.Break(method, errors.New("connection terminated")) })
	time.AfterFunc(11*time.Second, func() { w.store.Break(method, nil) })
}

func TestWaitForLeaseSurvivesStoreOutage(t *testing.T) {
	for _, method := range []string{"Load", "Lease"} {
		t.Run(method, func(t *testing.T) {
			oauthtest.Bubble(t, func(t *testing.T) {
				w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
				breakWhileWaiting(t, w, method)
				began := time.Now()
				token, err := w.source.Token(t.Context())
				require.NoError(t, err)
				assert.False(t, token.Secret.IsZero())
				assert.Less(t, time.Since(began), 40*time.Second)
			})
		})
	}
}

func TestDisconnectWaitSurvivesStoreOutage(t *testing.T) {
	for _, method := range []string{"Load", "Lease"} {
		t.Run(method, func(t *testing.T) {
			oauthtest.Bubble(t, func(t *testing.T) {
				w := newFixture(t, oauthtest.RotateAtOnce, time.Hour)
				breakWhileWaiting(t, w, method)
				require.NoError(t, w.conns.Disconnect(t.Context(), user))
			})
		})
	}
}

func TestLastingStoreOutageEndsWait(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		breakWhileWaiting(t, w, "Lease")
		time.AfterFunc(12*time.Second, func() { w.store.Break("Load", errors.New("down")) })
		began := time.Now()
		_, err := w.source.Token(t.Context())
		var failure *tokens.StoreError
		require.ErrorAs(t, err, &failure)
		assert.Less(t, time.Since(began), 5*time.Minute)
	})
}

// resource is the API without the token endpoint. It responds with 401 if rejects returns true
// for the token.
type resource struct {
	rejects func(access string) bool

	mu      sync.Mutex
	bearers []string
}

func (r *resource) RoundTrip(request *http.Request) (*http.Response, error) {
	time.Sleep(50 * time.Millisecond)
	access := strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer ")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bearers = append(r.bearers, access)
	if r.rejects(access) {
		return oauthtest.Respond(http.StatusUnauthorized, `{"error":"The access token expired"}`), nil
	}
	return oauthtest.Respond(http.StatusOK, `{}`), nil
}

func (r *resource) setRejects(rejects func(access string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rejects = rejects
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
		call := (&resource{rejects: everything}).caller(t, w.source)
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
		r := &resource{rejects: func(access string) bool { return strings.HasPrefix(access, "access-0-") }}
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
		r := &resource{rejects: everything}
		call := r.caller(t, w.source)
		for range 100 {
			require.ErrorIs(t, call(), api.ErrUnauthorized)
		}
		assert.Len(t, w.platform.Sent(), 1)
		other := w.callers(t, r, 1)[0]
		r.setRejects(func(access string) bool { return access == "access-0-0" || access == "access-1" })
		require.NoError(t, other())
		time.Sleep(3 * time.Minute)
		require.NoError(t, call(), "a refresh is forced again after 2 minutes")
		assert.Len(t, w.platform.Sent(), 3)
	})
}

// A replica in the pause after a forced refresh still finds the token of another replica.
func TestPausedForcedRefreshFindsPeerToken(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		r := &resource{rejects: everything}
		call := r.caller(t, w.source)
		require.ErrorIs(t, call(), api.ErrUnauthorized)
		w.saveAccess(t, "access-peer", 2*time.Hour)
		r.setRejects(func(access string) bool { return access != "access-peer" })
		require.NoError(t, call())
		assert.Len(t, w.platform.Sent(), 1)
	})
}
