package tokens_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// slowly returns connections to a store that is slow at the given methods, once each. The
// delay is before the work, or after it if late is true. Like a driver, the store stops when
// the context of its caller ends.
func (w *fixture) slowly(t *testing.T, late bool, d time.Duration, methods ...string) *tokens.Connections {
	t.Helper()
	slow := func(ctx context.Context, _ tokenstore.Key, work func() error) error {
		if late {
			if err := work(); err != nil {
				return err
			}
			work = func() error { return nil }
		}
		select {
		case <-time.After(d):
			return work()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	around := map[string]oauthtest.Interception{}
	for _, method := range methods {
		around[method] = oauthtest.First(1, slow)
	}
	return w.on(t, oauthtest.Around(w.store, around))
}

// Calls wait for a store that is slow for a moment, and none fails. The store is slow before
// or after its work, and the lease may expire meanwhile.
func TestCallsWaitForSlowStore(t *testing.T) {
	type slowness struct {
		method string
		late   bool // after the work
		d      time.Duration
	}
	var all []slowness
	for _, method := range []string{"Load", "Lease", "Commit"} {
		for _, d := range []time.Duration{11 * time.Second, 25 * time.Second, 40 * time.Second} {
			all = append(all, slowness{method, false, d}, slowness{method, true, d})
		}
	}
	oauthtest.Each(t, oauthtest.ByName(all...), func(t *testing.T, slow slowness) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		conns := w.slowly(t, slow.late, slow.d, slow.method)
		requireTokenOf(t, conns, "access-1")
		assert.Len(t, w.platform.Sent(), 1)
		require.NoError(t, conns.Close(t.Context()))
		assert.Equal(t, "refresh-1", w.record(t).Token.RefreshToken.Reveal())
	})
}

// If a slow store used up the lease, it is taken again before the request to the platform.
// Otherwise another replica could take it.
func TestExpiredLeaseIsTakenAgain(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		conns := w.slowly(t, true, defaults.LeaseTTL+10*time.Second, "Lease")
		peer := tokenstore.Lease{Key: w.conns.Key(user), Version: w.record(t).Version, Owner: "peer"}
		w.platform.Inject(takeOver(func() {
			_, err := w.store.Lease(t.Context(), peer, time.Minute)
			assert.ErrorIs(t, err, tokenstore.ErrLeased)
		}))
		requireTokenOf(t, conns, "access-1")
	})
}

// If a peer has taken the lease instead, the replica waits for the result of the peer.
func TestReplicaWaitsForFasterPeer(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		conns := w.slowly(t, true, defaults.LeaseTTL+10*time.Second, "Lease")
		go func() {
			time.Sleep(defaults.LeaseTTL + time.Second)
			_, err := w.replica(t).TokenSource(user).Token(t.Context())
			assert.NoError(t, err)
		}()
		requireTokenOf(t, conns, "access-1")
		assert.Len(t, w.platform.Sent(), 1, "the peer's refresh")
	})
}

// The caller's context limits the wait.
func TestContextLimitsWaitForStore(t *testing.T) {
	oauthtest.Each(t, oauthtest.ByName("Load", "Lease", "Commit"), func(t *testing.T, method string) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		conns := w.slowly(t, false, 25*time.Second, method)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		_, err := conns.TokenSource(user).Token(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2*time.Second, time.Since(began))
		requireTokenOf(t, conns, "access-1") // the store works again
		assert.Len(t, w.platform.Sent(), 1)
	})
}

// A hanging call of the store blocks a user only until its timeout.
func TestHangingStoreTimesOut(t *testing.T) {
	oauthtest.Each(t, oauthtest.ByName("Load", "Lease"), func(t *testing.T, method string) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		conns := w.slowly(t, false, 24*time.Hour, method)
		_, err := conns.TokenSource(user).Token(t.Context())
		requireStoreError(t, err, method)
		time.Sleep(time.Minute) // the pause after a failure
		_, err = conns.TokenSource(user).Token(t.Context())
		require.NoError(t, err)
	})
}

// A slow store does not lose the mark of a user.
func TestSlowStoreMarksUser(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Kill("refresh-0")
		conns := w.slowly(t, false, 25*time.Second, "Fail")
		requireMark(t, conns.TokenSource(user))
		assert.Equal(t, tokenstore.StateReauthorize, w.record(t).State)
	})
}

// A code cannot be requested again, so Connect waits for a slow store as well.
func TestSlowStoreConnectsUser(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		conns := w.slowly(t, false, 25*time.Second, "Save")
		record, err := conns.Connect(t.Context(), "user-18", api.NewSecret("code"))
		require.NoError(t, err)
		assert.Equal(t, "access-1", record.Token.AccessToken.Reveal())
		assert.Len(t, w.platform.Sent(), 1, "no token was revoked")
	})
}

func TestSlowStoreDisconnectsUser(t *testing.T) {
	oauthtest.Each(t, oauthtest.ByName("Load", "Lease"), func(t *testing.T, method string) {
		w := newFixture(t, oauthtest.RotateNever, time.Hour)
		conns := w.slowly(t, true, 40*time.Second, method)
		require.NoError(t, conns.Disconnect(t.Context(), user))
		w.requireForgotten(t)
	})
}

func TestUnstoredPairStaysPending(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.store.Break("Commit", errors.New("database is away"))
		_, err := w.source.Token(t.Context())
		requireStoreError(t, err, "Commit") // no call gets the pair before it is stored
		assert.Equal(t, 1, w.conns.PendingCommits())
		assert.Contains(t, w.logs.String(), "only in memory")

		_, err = w.source.Token(t.Context())
		requireStoreError(t, err, "Commit")
		time.Sleep(10 * time.Minute) // longer than any lease
		assert.Equal(t, 1, w.conns.PendingCommits())

		w.store.Break("Commit", nil)
		require.NoError(t, w.conns.Close(t.Context()))
		assert.Zero(t, w.conns.PendingCommits())
		w.requireToken(t, "access-1")
		assert.Equal(t, "refresh-1", w.record(t).Token.RefreshToken.Reveal())
		assert.Len(t, w.platform.Sent(), 1)
	})
}

func TestBriefStoreFailureOnlyDelays(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.store.Break("Commit", errors.New("failing over"))
		go func() {
			time.Sleep(2 * time.Second)
			w.store.Break("Commit", nil)
		}()
		w.requireToken(t, "access-1")
		assert.Len(t, w.platform.Sent(), 1)
	})
}

func TestOldTokenServesDuringPendingCommit(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Minute, func(t *testing.T, w *fixture) {
		w.store.Break("Commit", errors.New("database is away"))
		for range 3 {
			w.requireToken(t, "access-0")
			time.Sleep(15 * time.Second)
		}
		assert.Len(t, w.platform.Sent(), 1, "the pending pair is not requested twice")
		w.store.Break("Commit", nil)
		require.NoError(t, w.conns.Close(t.Context()))
	})
}

// takeOver runs steal before the response to a refresh arrives.
func takeOver(steal func()) oauthtest.Fault {
	return oauthtest.Changes(func(*http.Response) { steal() })
}

func TestSlowOwnerRestoresMarkedUser(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(takeOver(func() {
			time.Sleep(defaults.LeaseTTL + time.Second)    // this replica hangs
			requireMark(t, w.replica(t).TokenSource(user)) // spent by the hanging replica
		}))
		w.requireToken(t, "access-1")
		record := w.record(t)
		assert.Equal(t, tokenstore.StateActive, record.State)
		assert.Empty(t, record.Reason)
		assert.Equal(t, "refresh-1", record.Token.RefreshToken.Reveal())
	})
}

func TestSlowOwnerAdoptsPeerToken(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(takeOver(func() {
			time.Sleep(defaults.LeaseTTL + time.Second)
			_, err := w.replica(t).TokenSource(user).Token(t.Context())
			assert.NoError(t, err)
		}))
		w.requireToken(t, "access-2")
		assert.Equal(t, "refresh-2", w.record(t).Token.RefreshToken.Reveal())
	})
}

// If a refresh token is rejected after the lease expired, the new owner of the lease may have
// spent it.
func TestStalledOwnerWaitsForSuccessor(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		peer := w.replica(t)
		var waiting sync.WaitGroup
		w.platform.Inject(func(func() *http.Response) (*http.Response, error) {
			time.Sleep(defaults.LeaseTTL + time.Second) // this replica hangs
			w.platform.Delay = 5 * time.Second
			waiting.Go(func() {
				_, err := peer.TokenSource(user).Token(t.Context())
				assert.NoError(t, err)
			})
			synctest.Wait()
			return oauthtest.Respond(401, `{"error":"invalid_grant"}`), nil
		})
		w.requireToken(t, "access-1")
		waiting.Wait()
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)
		assert.Len(t, w.platform.Sent(), 2)
	})
}

func TestSlowOwnerWaitsForPeer(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(takeOver(func() {
			time.Sleep(defaults.LeaseTTL + time.Second)
			w.lease(t, time.Minute)
		}))
		w.requireFailure(t, tokenstore.ErrLeased)
		require.NoError(t, w.conns.Close(t.Context())) // the peer has crashed, so the pair is stored after all
		w.requireToken(t, "access-1")
	})
}

// Close stops the work that does not end before its context, and counts it.
func TestCloseStopsWork(t *testing.T) {
	type test struct {
		start func(t *testing.T, w *fixture)
		text  string
	}
	oauthtest.Each(t, map[string]test{
		"refresh": {func(_ *testing.T, w *fixture) {
			w.platform.Delay = time.Hour
		}, "1 token refreshes running, 0 token pairs"},
		"lease of a peer": {func(t *testing.T, w *fixture) {
			w.lease(t, 24*time.Hour)
		}, "1 token refreshes running, 0 token pairs"},
		"unstored pair": {func(_ *testing.T, w *fixture) {
			w.store.Break("Commit", errors.New("database is away"))
		}, "1 token refreshes running, 1 token pairs not stored"},
		"unrevoked token": {func(t *testing.T, w *fixture) {
			w.store.Break("Save", errors.New("database is away"))
			w.platform.Inject(append([]oauthtest.Fault{nil}, oauthtest.Times(100, oauthtest.Responses(500, ""))...)...)
			_, err := w.conns.Connect(t.Context(), user, api.NewSecret("code-1"))
			require.Error(t, err)
		}, "1 tokens not revoked"},
	}, func(t *testing.T, test test) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		test.start(t, w)
		called := make(chan error, 1)
		go func() { _, err := w.source.Token(t.Context()); called <- err }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := w.conns.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, test.text)
		<-called
		done := func() []int {
			return []int{len(w.platform.Sent()), w.store.Count("Load"), w.store.Count("Lease"), w.store.Count("Commit"), w.store.Count("Save")}
		}
		before := done()
		time.Sleep(time.Hour)
		assert.Equal(t, before, done(), "work goes on")
		require.NoError(t, w.conns.Close(t.Context()))
		_, err = w.conns.TokenSource("another").Token(t.Context())
		require.Error(t, err)
	})
}

func TestPanickingCommitIsRetried(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		store := oauthtest.Around(w.store, map[string]oauthtest.Interception{"Commit": oauthtest.First(2, panics)})
		requireTokenOf(t, w.on(t, store), "access-1")
	})
}

// A pair is also reported as stored if only the response of the store was lost.
func TestLostCommitResponseIsReported(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		lost := func(_ context.Context, _ tokenstore.Key, work func() error) error {
			return errors.Join(work(), errors.New("connection reset"))
		}
		w.store = oauthtest.Around(w.store.Store, map[string]oauthtest.Interception{"Commit": oauthtest.First(1, lost)})
		a := w.watched(t)
		w.requireToken(t, "access-1")
		assert.Len(t, eventsOf[tokens.CommitDelayed](a), 1)
		assert.Equal(t, tokens.OutcomeRefreshed, eventsOf[tokens.Refresh](a)[0].Outcome)
	})
}

// A user who was disconnected while a pair was pending stays disconnected. The pair is stored
// only so that it can be revoked, and no call uses it.
func TestPendingPairKeepsUserDisconnected(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		w.store.Break("Commit", errors.New("database is away"))
		_, err := w.source.Token(t.Context())
		requireStoreError(t, err, "Commit")
		time.Sleep(defaults.LeaseTTL)

		peer := w.on(t, w.store.Store)
		w.platform.Inject(oauthtest.Times(2, oauthtest.Responses(500, ""))...)
		require.ErrorIs(t, peer.Disconnect(t.Context(), user), api.ErrServer)
		w.platform.Replace()
		w.store.Break("Commit", nil)
		w.store.Break("Fail", errors.New("database is away"))
		time.Sleep(2 * time.Minute)
		w.store.Break("Fail", nil)
		require.NoError(t, w.conns.Close(t.Context()))
		w.requireReauthorize(t, tokenstore.ReasonDisconnecting)
		assert.Equal(t, "refresh-1", w.record(t).Token.RefreshToken.Reveal())
		assert.Empty(t, eventsOf[restored](a))

		require.NoError(t, peer.Disconnect(t.Context(), user))
		w.requireRevokedLast(t, "access-1")
		w.requireForgotten(t)
	})
}
