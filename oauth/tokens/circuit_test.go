package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// alarms collects events.
type alarms struct {
	mu  sync.Mutex
	all []any
}

// disconnected and restored are the users of these events.
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

// watched gives the fixture's connections an observer.
func (w *fixture) watched(t *testing.T) *alarms {
	t.Helper()
	a := &alarms{}
	w.conns = w.replica(t, func(c *settings) { c.Tokens.Observers = []tokens.Observer{a.observer()} })
	w.source = w.conns.TokenSource(user)
	return a
}

func TestAlarmRestsKeepFreshAndIsRaisedOnce(t *testing.T) {
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
		assert.WithinDuration(t, tripped[0].Until, until, 5*time.Second, "refreshes that have begun may finish")
		assert.LessOrEqual(t, len(w.platform.Sent()), 13)
		assert.Empty(t, eventsOf[*tokens.ReauthorizeError](a))
		for _, refresh := range eventsOf[tokens.Refresh](a) {
			assert.True(t, refresh.Background)
		}

		// Still the same trouble: one trial after each pause, and no other alarm.
		time.Sleep(60 * time.Minute)
		assert.Less(t, len(w.platform.Sent()), 40)
		assert.NotEmpty(t, eventsOf[*tokens.ReauthorizeError](a))
		assert.Len(t, eventsOf[tokens.MassRejection](a), 1)
		assert.Equal(t, 1, strings.Count(w.logs.String(), `"level":"ERROR"`))
	})
}

func TestAlarmIsRaisedAgainAfterGoodTimes(t *testing.T) {
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

// rejects lets the refresh tokens of some users be rejected for the first time.
func (w *fixture) rejects(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		requireRejected(t, w.ask(t, i))
	}
}

// The alarm holds no call back: each user is marked by the second rejection.
func TestAlarmHoldsNoUserBack(t *testing.T) {
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

func TestSomeRejectionsAreUsual(t *testing.T) {
	oauthtest.Each(t, map[string]func(t *testing.T, w *fixture){
		"below the number": func(t *testing.T, w *fixture) { w.rejects(t, 0, 9) },
		"one user again and again": func(t *testing.T, w *fixture) {
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
		"of marked users who are tried again": func(t *testing.T, w *fixture) {
			for i := range 20 {
				requireMark(t, w.conns.TokenSource(fmt.Sprintf("many-%d", i)))
			}
			time.Sleep(24 * time.Hour)
			for i := range 20 {
				requireReauthorize(t, w.ask(t, i), tokenstore.ReasonInvalidGrant)
			}
		},
		"among refreshes that work": func(t *testing.T, w *fixture) {
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

// The platform documents that new scopes end all tokens: each user who calls must learn it soon.
func TestAddedScopesReachEveryCaller(t *testing.T) {
	oauthtest.Each(t, map[string]time.Duration{"expired tokens": -time.Minute, "401": time.Hour}, func(t *testing.T, left time.Duration) {
		const users = 500
		w := newFixture(t, oauthtest.RotateNever, 24*time.Hour)
		r := &resource{refuses: everything}
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
		assert.Len(t, w.platform.Sent(), 2*users)
	})
}

// A user whose application calls once in 5 minutes and never retries is marked as well.
func TestRareCallsMarkToo(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.ForgetAll()
		_, err := w.source.Token(t.Context())
		requireRejected(t, err)
		time.Sleep(5 * time.Minute)
		w.requireReauthorize(t, tokenstore.ReasonInvalidGrant)
	})
}

// While the token endpoint fails for all users, only a few requests are sent to it, and
// once it works again no user waits for long.
func TestAFailingEndpointIsSpared(t *testing.T) {
	oauthtest.Each(t, map[string]oauthtest.Fault{"no response": oauthtest.Drops, "403": oauthtest.Answers(403, html)}, func(t *testing.T, f oauthtest.Fault) {
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
				var answer *api.Error
				require.ErrorAs(t, err, &answer, "the platform's own answer")
			}
			time.Sleep(5 * time.Second)
		}
		first := 2 * users // all of them at once, each twice where no answer came
		assert.LessOrEqual(t, len(w.platform.Sent()), first+2*600, "then one user a second")
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

// After the pause for a refused application one user's refresh is tried for all.
func TestRefusedApplicationIsTriedOnce(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 50, -time.Minute)
		w.platform.Delay = 100 * time.Millisecond
		w.platform.Inject(oauthtest.Times(100, oauthtest.Answers(401, `{"error":"invalid_client"}`))...)
		calls := make([]func() error, 50)
		for i := range calls {
			calls[i] = func() error { return w.ask(t, i) }
		}
		require.Error(t, calls[0]())
		for round := range 3 {
			time.Sleep(time.Minute)
			var refusal *oauth.ConfigError
			for _, err := range together(calls) {
				require.ErrorAs(t, err, &refusal)
			}
			assert.Len(t, w.platform.Sent(), 2+round)
		}
	})
}

// Nor does the refresher claim tokens for it over and over.
func TestKeepFreshClaimsNothingForAFailingEndpoint(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 200, time.Minute)
		w.platform.Inject(oauthtest.Times(100_000, oauthtest.Answers(500, ""))...)
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		defer stop()
		for range 600 { // calls keep the endpoint known as failing
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
		assert.Empty(t, due, "all are made up for")
	})
}

// The platform may ask all users to wait.
func TestAnEndpointThatAsksToWaitIsLeftAlone(t *testing.T) {
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

// One user whose refreshes always fail does not delay the others, however often they fail.
func TestAFailingUserDoesNotDelayOthers(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.connect(t, 1, -time.Minute)
		w.platform.Inject(oauthtest.Times(40, oauthtest.RetryAfter("30"))...)
		for range 40 {
			w.requireFailure(t, api.ErrRateLimited)
			time.Sleep(31 * time.Second)
		}
		w.platform.Inject(oauthtest.Answers(500, ""), oauthtest.Answers(500, ""))
		w.requireFailure(t, api.ErrServer)
		_, err := w.conns.TokenSource("many-0").Token(t.Context())
		require.NoError(t, err)
	})
}

// The store's own trouble says nothing about the endpoint.
func TestAFailingStoreDoesNotCountAgainstTheEndpoint(t *testing.T) {
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

// Processes that end soon, such as nightly jobs, share the first rejection through the store.
func TestNextProcessMarksTheUser(t *testing.T) {
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

// A time of the first rejection in the future does not keep a user from being marked.
func TestClockThatIsBehindMarksTheUser(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.ForgetAll()
		token := oauthtest.FirstToken(-time.Minute)
		token.RejectedAt = time.Now().Add(time.Hour)
		w.save(t, token)
		requireMark(t, w.source)
	})
}
