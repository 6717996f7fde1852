package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// alarms collects the values of observer calls.
type alarms struct {
	mu  sync.Mutex
	all []any
}

// disconnected and restored are the users of these observer calls.
type (
	disconnected tokenstore.Key
	restored     tokenstore.Key
)

func note[E any](a *alarms) func(context.Context, E) {
	return func(_ context.Context, e E) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all = append(a.all, e)
	}
}

func (a *alarms) observer() tokens.Observer {
	return tokens.Observer{
		RefreshEnd:      note[tokens.Refresh](a),
		Connected:       note[tokens.Authorization](a),
		Disconnected:    func(ctx context.Context, key tokenstore.Key) { note[disconnected](a)(ctx, disconnected(key)) },
		MustReauthorize: note[*tokens.ReauthorizeError](a),
		Restored:        func(ctx context.Context, key tokenstore.Key) { note[restored](a)(ctx, restored(key)) },
		CommitDelayed:   note[tokens.CommitDelayed](a), MassRejection: note[tokens.MassRejection](a),
		ConfigErrorDetected: note[tokens.ConfigErrorDetected](a),
	}
}

func eventsOf[E any](a *alarms) []E {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []E
	for _, e := range a.all {
		if e, ok := e.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

// watched adds an observer to the fixture's connections.
func (w *fixture) watched(t *testing.T) *alarms {
	t.Helper()
	a := &alarms{}
	w.conns = w.replica(t, func(c *settings) { c.Tokens.Observers = []tokens.Observer{a.observer()} })
	w.source = w.conns.TokenSource(user)
	return a
}

func TestAlarmPausesKeepFresh(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		w.connect(t, 100, time.Minute)
		w.platform.ForgetAll()
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		defer stop()
		time.Sleep(14 * time.Minute)
		tripped := eventsOf[tokens.MassRejection](a)
		require.Len(t, tripped, 1)
		assert.Equal(t, 10, tripped[0].Users)
		assert.Equal(t, 5*time.Minute, tripped[0].Window)
		assert.Equal(t, oauthtest.USSandbox, tripped[0].Environment)
		until, paused := w.conns.Paused()
		assert.True(t, paused)
		assert.WithinDuration(t, tripped[0].Until, until, 5*time.Second, "running refreshes may finish")
		assert.LessOrEqual(t, len(w.platform.Sent()), 13)
		assert.Empty(t, eventsOf[*tokens.ReauthorizeError](a))
		for _, refresh := range eventsOf[tokens.Refresh](a) {
			assert.True(t, refresh.Background)
		}

		// The trouble continues: one trial after each pause, and no further alarm.
		time.Sleep(60 * time.Minute)
		assert.Less(t, len(w.platform.Sent()), 40)
		assert.NotEmpty(t, eventsOf[*tokens.ReauthorizeError](a))
		assert.Len(t, eventsOf[tokens.MassRejection](a), 1)
		assert.Equal(t, 1, strings.Count(w.logs.String(), `"level":"ERROR"`))
	})
}

func TestAlarmRepeatsAfterRecovery(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		w.connect(t, 100, -time.Minute)
		w.platform.ForgetAll()
		w.rejects(t, 0, 10)
		assert.Len(t, eventsOf[tokens.MassRejection](a), 1)
		time.Sleep(31 * time.Minute)
		_, paused := w.conns.Paused()
		assert.False(t, paused)
		w.rejects(t, 10, 20)
		assert.Len(t, eventsOf[tokens.MassRejection](a), 2)
	})
}

// rejects makes the platform reject the refresh tokens of some users for the first time.
func (w *fixture) rejects(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		requireRejected(t, w.ask(t, i))
	}
}

// The alarm delays no call: the second rejection marks each user.
func TestAlarmDelaysNoUser(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 50, -time.Minute)
		undo := w.platform.ForgetAll()
		w.rejects(t, 0, 50)
		w.rejects(t, 0, 50)
		assert.Len(t, w.platform.Sent(), 50, "no retry within a minute")
		time.Sleep(time.Minute)
		for i := range 25 {
			requireReauthorize(t, w.ask(t, i), tokenstore.ReasonInvalidGrant)
		}
		undo()
		for i := 25; i < 50; i++ {
			require.NoError(t, w.ask(t, i))
		}
	})
}

func TestFewRejectionsRaiseNoAlarm(t *testing.T) {
	oauthtest.Each(t, map[string]func(t *testing.T, w *fixture){
		"below the limit": func(t *testing.T, w *fixture) { w.rejects(t, 0, 9) },
		"one user repeatedly": func(t *testing.T, w *fixture) {
			for range 20 {
				require.Error(t, w.ask(t, 0))
				time.Sleep(20 * time.Second)
			}
		},
		"slowly": func(t *testing.T, w *fixture) {
			for i := range 40 {
				w.rejects(t, i, i+1)
				time.Sleep(time.Minute)
			}
		},
		"retries of marked users": func(t *testing.T, w *fixture) {
			for i := range 20 {
				requireMark(t, w.conns.TokenSource(fmt.Sprintf("many-%d", i)))
			}
			time.Sleep(24 * time.Hour)
			for i := range 20 {
				requireReauthorize(t, w.ask(t, i), tokenstore.ReasonInvalidGrant)
			}
		},
		"among successful refreshes": func(t *testing.T, w *fixture) {
			for i := range 10 {
				w.rejects(t, 5*i, 5*i+5)
				w.platform.Allow(fmt.Sprintf("refresh-0-%d", 50+i))
				require.NoError(t, w.ask(t, 50+i))
			}
		},
	}, func(t *testing.T, run func(*testing.T, *fixture)) {
		w := newFixture(t, oauthtest.RotateNever, -time.Minute)
		a := w.watched(t)
		w.connect(t, 100, -time.Minute)
		w.platform.ForgetAll()
		run(t, w)
		_, paused := w.conns.Paused()
		assert.False(t, paused)
		assert.Empty(t, eventsOf[tokens.MassRejection](a))
	})
}

// The platform documents that new scopes invalidate all tokens. Each user with calls must
// learn this soon.
func TestAddedScopesMarkEveryCaller(t *testing.T) {
	oauthtest.Each(t, map[string]time.Duration{"expired tokens": -time.Minute, "401": time.Hour}, func(t *testing.T, left time.Duration) {
		const users = 500
		w := newFixture(t, oauthtest.RotateNever, 24*time.Hour)
		r := &resource{rejects: everything}
		w.connect(t, users, left)
		w.platform.ForgetAll()
		var wg sync.WaitGroup
		for i := range users {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Minute / users)
				call := r.caller(t, w.conns.TokenSource(fmt.Sprintf("many-%d", i)))
				began := time.Now()
				err := call()
				for wait := time.Second; !errors.Is(err, api.ErrReauthorize); wait = min(2*wait, 30*time.Second) {
					if !assert.Less(t, time.Since(began), 2*time.Minute, err) {
						return
					}
					time.Sleep(wait)
					err = call()
				}
			})
		}
		wg.Wait()
		sent := len(w.platform.Sent())
		assert.True(t, sent == 2*users || sent == 2*users-1, "%d requests: only the first user may be marked at once", sent)
	})
}

// A user with one call in 5 minutes and no retries is marked as well.
func TestRareCallsMarkUser(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.ForgetAll()
		_, err := w.source.Token(t.Context())
		requireRejected(t, err)
		time.Sleep(5 * time.Minute)
		w.requireReauthorize(t, tokenstore.ReasonInvalidGrant)
	})
}

// While the token endpoint fails for all users, it gets only a few requests. Once it works
// again, no user waits long.
func TestFailingEndpointGetsFewRequests(t *testing.T) {
	oauthtest.Each(t, map[string]oauthtest.Fault{"no response": oauthtest.Drops, "403": oauthtest.Responses(403, html)}, func(t *testing.T, f oauthtest.Fault) {
		const users = 200
		w := newFixture(t, oauthtest.RotateAtOnce, 24*time.Hour)
		w.connect(t, users, -time.Minute)
		w.platform.Inject(oauthtest.Times(100_000, f)...)
		calls := make([]func() error, users)
		for i := range calls {
			source := w.conns.TokenSource(fmt.Sprintf("many-%d", i))
			calls[i] = func() error { _, err := source.Token(t.Context()); return err }
		}
		for range 120 {
			for _, err := range together(calls) {
				require.Error(t, err)
				require.NotErrorIs(t, err, api.ErrReauthorize)
				var response *api.Error
				require.ErrorAs(t, err, &response, "the error of the platform")
			}
			time.Sleep(5 * time.Second)
		}
		first := 2 * users // all at once, each twice if there is no response
		assert.LessOrEqual(t, len(w.platform.Sent()), first+2*600, "then one user per second")
		w.platform.Replace()
		time.Sleep(30 * time.Second)
		left := users
		for range 10 {
			left = 0
			for _, err := range together(calls) {
				if err != nil {
					left++
				}
			}
			if left == 0 {
				break
			}
			time.Sleep(time.Second)
		}
		assert.Zero(t, left)
	})
}

// After the pause for a rejected application, one refresh is the trial for all users.
func TestRejectedApplicationGetsOneTrial(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 50, -time.Minute)
		w.platform.Delay = 100 * time.Millisecond
		w.platform.Inject(oauthtest.Times(100, oauthtest.Responses(401, `{"error":"invalid_client"}`))...)
		calls := make([]func() error, 50)
		for i := range calls {
			calls[i] = func() error { return w.ask(t, i) }
		}
		require.Error(t, calls[0]())
		for round := range 3 {
			time.Sleep(time.Minute)
			var rejection *oauth.ConfigError
			for _, err := range together(calls) {
				require.ErrorAs(t, err, &rejection)
			}
			assert.Len(t, w.platform.Sent(), 2+round)
		}
	})
}

// KeepFresh does not claim tokens repeatedly while the token endpoint fails.
func TestFailingEndpointLimitsClaims(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 200, time.Minute)
		w.platform.Inject(oauthtest.Times(100_000, oauthtest.Responses(500, ""))...)
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		defer stop()
		for range 600 { // calls keep the endpoint in trouble
			for i := range 10 {
				_, _ = w.conns.TokenSource(fmt.Sprintf("many-%d", i)).Token(t.Context())
			}
			time.Sleep(time.Second)
		}
		assert.Less(t, w.store.Count("ClaimDue"), 100)
		assert.Less(t, w.store.Count("Release"), 5000)
		w.platform.Replace()
		time.Sleep(5 * time.Minute)
		assert.Less(t, w.store.Count("ClaimDue"), 300)
		due, err := w.store.ClaimDue(t.Context(), tokenstore.Due{Environment: oauthtest.USSandbox, Before: time.Now(), Limit: 300, Owner: "me", TTL: time.Second})
		require.NoError(t, err)
		assert.Empty(t, due, "KeepFresh has caught up")
	})
}

// A Retry-After of the token endpoint can apply to all users.
func TestRetryAfterPausesAllUsers(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 20, -time.Minute)
		w.platform.Inject(oauthtest.Times(100, oauthtest.RetryAfter("60"))...)
		for i := range 20 {
			require.ErrorIs(t, w.ask(t, i), api.ErrRateLimited)
			time.Sleep(2 * time.Second)
		}
		assert.Len(t, w.platform.Sent(), 5)
		time.Sleep(time.Minute)
		w.platform.Replace()
		for i := range 20 {
			require.NoError(t, w.ask(t, i))
		}
	})
}

// If the refreshes of one user always fail, they never delay the other users.
func TestFailingUserDelaysNoOthers(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.connect(t, 1, -time.Minute)
		w.platform.Inject(oauthtest.Times(40, oauthtest.RetryAfter("30"))...)
		for range 40 {
			w.requireFailure(t, api.ErrRateLimited)
			time.Sleep(31 * time.Second)
		}
		w.platform.Inject(oauthtest.Responses(500, ""), oauthtest.Responses(500, ""))
		w.requireFailure(t, api.ErrServer)
		_, err := w.conns.TokenSource("many-0").Token(t.Context())
		require.NoError(t, err)
	})
}

// Failures of the store show nothing about the endpoint.
func TestFailingStorePausesNoRefreshes(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 20, -time.Minute)
		w.store.Break("Lease", errors.New("away"))
		for i := range 19 {
			require.Error(t, w.ask(t, i))
		}
		w.store.Break("Lease", nil)
		_, err := w.conns.TokenSource("many-19").Token(t.Context())
		require.NoError(t, err)
	})
}

// secondFails is a limiter whose second permission fails.
type secondFails struct{ asked atomic.Int32 }

func (l *secondFails) Wait(context.Context) error {
	if l.asked.Add(1)%2 == 0 {
		return errors.New("away")
	}
	return nil
}

// Errors of this process and of single users show nothing about the endpoint either.
func TestLocalErrorsPauseNoRefreshes(t *testing.T) {
	oauthtest.Each(t, map[string]func(t *testing.T, w *fixture, i int){
		"token of another owner": func(t *testing.T, w *fixture, _ int) { w.platform.Inject(asOwner(t, "prac-2")) },
		"limiter": func(t *testing.T, w *fixture, i int) {
			if i == 0 {
				w.conns = w.replica(t, func(c *settings) { c.Limiter = &secondFails{} })
			}
			w.platform.Inject(oauthtest.Loses) // the retry waits for the limiter again
		},
		"refresh token that cannot be sent": func(t *testing.T, w *fixture, i int) {
			token := oauthtest.FirstToken(-time.Minute)
			token.RefreshToken = api.NewSecret("\xff")
			_, err := w.store.Save(t.Context(), w.conns.Key(fmt.Sprintf("many-%d", i)), token)
			require.NoError(t, err)
		},
	}, func(t *testing.T, breaks func(*testing.T, *fixture, int)) {
		w := newFixture(t, oauthtest.RotateNever, 24*time.Hour)
		w.connect(t, 20, -time.Minute)
		for i := range 19 {
			breaks(t, w, i)
			require.Error(t, w.ask(t, i))
		}
		w.platform.Replace()
		require.NoError(t, w.ask(t, 19))
	})
}

// Short processes, such as nightly jobs, share the first rejection through the store.
func TestNextProcessMarksUser(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.ForgetAll()
		for _, wait := range []time.Duration{0, 30 * time.Second} {
			time.Sleep(wait)
			_, err := w.replica(t).TokenSource(user).Token(t.Context())
			requireRejected(t, err)
		}
		time.Sleep(30 * time.Second)
		_, err := w.replica(t).TokenSource(user).Token(t.Context())
		requireReauthorize(t, err, tokenstore.ReasonInvalidGrant)
	})
}

// If the time of the first rejection is in the future, the user is marked nevertheless.
func TestSlowClockMarksUser(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.ForgetAll()
		token := oauthtest.FirstToken(-time.Minute)
		token.RejectedAt = time.Now().Add(time.Hour)
		w.save(t, token)
		requireMark(t, w.source)
	})
}
