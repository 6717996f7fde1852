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
)

// alarms collects events.
type alarms struct {
	mu  sync.Mutex
	all []tokens.Event
}

func (a *alarms) note(_ context.Context, e tokens.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, e)
}

func eventsOf[E tokens.Event](a *alarms) []E {
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
	w.conns = w.replica(t, func(c *settings) { c.Tokens.Observers = []tokens.Observer{{Event: a.note}} })
	w.source = w.conns.TokenSource(user)
	return a
}

func TestBreakerStopsTheRefresherAndAlarmsOnce(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		w.connect(t, 100, time.Minute)
		w.platform.ForgetAll()
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		defer stop()
		time.Sleep(14 * time.Minute)
		tripped := eventsOf[tokens.BreakerTripped](a)
		require.Len(t, tripped, 1)
		assert.Equal(t, 10, tripped[0].Users)
		assert.Equal(t, 5*time.Minute, tripped[0].Window)
		assert.Equal(t, oauthtest.USSandbox, tripped[0].Subject().Environment)
		until, paused := w.conns.Paused()
		assert.True(t, paused)
		assert.Equal(t, tripped[0].Until, until)
		sent := len(w.platform.Sent())
		assert.LessOrEqual(t, sent, 13, "refreshes that have begun may finish")
		assert.Len(t, eventsOf[tokens.MustReauthorize](a), 10, "one event for each marked user")

		// Still the same trouble: pauses, and no other alarm.
		time.Sleep(60 * time.Minute)
		assert.Greater(t, len(w.platform.Sent()), sent)
		assert.Less(t, len(w.platform.Sent()), 80)
		assert.Len(t, eventsOf[tokens.BreakerTripped](a), 1)
		assert.Equal(t, 1, strings.Count(w.logs.String(), `"level":"ERROR"`))
	})
}

func TestBreakerAlarmsAgainAfterGoodTimes(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		w.connect(t, 100, -time.Minute)
		w.platform.ForgetAll()
		w.fails(t, 0, 10)
		assert.Len(t, eventsOf[tokens.BreakerTripped](a), 1)
		time.Sleep(31 * time.Minute)
		_, paused := w.conns.Paused()
		assert.False(t, paused)
		w.fails(t, 10, 20)
		assert.Len(t, eventsOf[tokens.BreakerTripped](a), 2)
	})
}

// fails lets calls of some users meet their end.
func (w *fixture) fails(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		_, err := w.conns.TokenSource(fmt.Sprintf("many-%d", i)).Token(t.Context())
		requireReauthorize(t, err, tokens.ReasonInvalidGrant)
	}
}

// While the breaker is open no other user is marked, and a call whose refresh token
// was refused can be repeated with the same token once the platform has recovered.
func TestOpenBreakerMarksNoUser(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		w.connect(t, 100, -time.Minute)
		undo := w.platform.ForgetAll()
		w.fails(t, 0, 10)
		for range 3 {
			for i := 10; i < 100; i++ {
				_, err := w.conns.TokenSource(fmt.Sprintf("many-%d", i)).Token(t.Context())
				require.NotErrorIs(t, err, oauth.ErrReauthorize)
				var answer *api.Error
				require.ErrorAs(t, err, &answer)
				assert.Equal(t, "invalid_grant", answer.Code)
			}
			time.Sleep(time.Minute)
		}
		assert.Len(t, w.platform.Sent(), 100, "each is asked for once in a while")
		assert.Len(t, eventsOf[tokens.MustReauthorize](a), 10)
		undo()
		time.Sleep(5 * time.Minute)
		for i := 10; i < 100; i++ {
			require.NoError(t, w.ask(t, i))
		}
		_, paused := w.conns.Paused()
		assert.True(t, paused)
	})
}

// A refused refresh token that a peer has replaced is the race it always is, while the
// breaker is open, too.
func TestOpenBreakerAdoptsWhatAPeerStored(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		w.connect(t, 10, -time.Minute)
		w.platform.ForgetAll()
		w.fails(t, 0, 10)
		w.platform.Inject(takeOver(func() { w.saveAccess(t, "access-peer", time.Hour) }))
		w.requireToken(t, "access-peer")
	})
}

func TestSomeRefusalsAreUsual(t *testing.T) {
	oauthtest.Each(t, map[string]func(t *testing.T, w *fixture){
		"below the number": func(t *testing.T, w *fixture) { w.fails(t, 0, 9) },
		"one user again and again": func(t *testing.T, w *fixture) {
			for range 20 {
				token := oauthtest.FirstToken(-time.Minute)
				token.RefreshToken = api.NewSecret("dead")
				w.save(t, token)
				w.source.Forget()
				w.requireReauthorize(t, tokens.ReasonInvalidGrant)
			}
		},
		"slowly": func(t *testing.T, w *fixture) {
			for i := range 40 {
				w.fails(t, i, i+1)
				time.Sleep(time.Minute)
			}
		},
		"of marked users who are tried again": func(t *testing.T, w *fixture) {
			for i := range 20 {
				w.fails(t, i, i+1)
				time.Sleep(time.Minute)
			}
			time.Sleep(24 * time.Hour)
			w.fails(t, 0, 20)
		},
		"among many that work": func(t *testing.T, w *fixture) {
			for i := range 50 {
				w.platform.Allow(fmt.Sprintf("refresh-0-%d", i))
				require.NoError(t, w.ask(t, i))
			}
			w.fails(t, 50, 80)
		},
	}, func(t *testing.T, run func(*testing.T, *fixture)) {
		w := newFixture(t, oauthtest.RotateNever, -time.Minute)
		a := w.watched(t)
		w.connect(t, 100, -time.Minute)
		w.platform.ForgetAll()
		run(t, w)
		_, paused := w.conns.Paused()
		assert.False(t, paused)
		assert.Empty(t, eventsOf[tokens.BreakerTripped](a))
	})
}

func TestEventsOfAUsersLife(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, 24*time.Hour, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		ctx, key := t.Context(), w.conns.Key("new")
		record, err := w.conns.Connect(ctx, "new", api.NewSecret("code-1"))
		require.NoError(t, err)
		assert.Equal(t, key, record.Key)
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		time.Sleep(110 * time.Minute)
		stop()
		source := w.conns.TokenSource("new")
		time.Sleep(3 * time.Hour)
		_, err = source.Token(ctx)
		require.NoError(t, err)

		w.store.Break("Commit", assert.AnError)
		time.Sleep(3 * time.Hour)
		_, err = source.Token(ctx)
		require.ErrorIs(t, err, assert.AnError)
		w.store.Break("Commit", nil)
		time.Sleep(time.Minute)

		time.Sleep(3 * time.Hour)
		w.platform.Inject(oauthtest.Answers(401, `{"error":"invalid_client"}`))
		_, err = source.Token(ctx)
		require.Error(t, err)
		time.Sleep(2 * time.Minute)
		w.platform.ForgetAll()
		_, err = source.Token(ctx)
		require.ErrorIs(t, err, oauth.ErrReauthorize)
		_, err = source.Token(ctx)
		require.ErrorIs(t, err, oauth.ErrReauthorize)
		require.NoError(t, w.conns.Disconnect(ctx, "new"))

		var types []string
		for _, e := range a.all {
			types = append(types, strings.TrimPrefix(fmt.Sprintf("%T", e), "tokens."))
			want := key
			if _, ok := e.(tokens.ConfigErrorDetected); ok {
				want.User = ""
			}
			assert.Equal(t, want, e.Subject())
		}
		assert.Equal(t, []string{
			"Connected", "Refreshed", "Refreshed", "CommitDelayed", "Refreshed", "ConfigErrorDetected", "MustReauthorize", "Disconnected",
		}, types)
		refreshed := eventsOf[tokens.Refreshed](a)
		assert.True(t, refreshed[0].Background)
		assert.False(t, refreshed[1].Background)
		assert.Equal(t, tokens.ReasonInvalidGrant, eventsOf[tokens.MustReauthorize](a)[0].Reason)
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
				require.NotErrorIs(t, err, oauth.ErrReauthorize)
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
		due, err := w.store.ClaimDue(t.Context(), tokens.Due{Environment: oauthtest.USSandbox, Before: time.Now(), Limit: 300, Owner: "me", TTL: time.Second})
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
