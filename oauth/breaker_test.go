package oauth_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// alarms collects events.
type alarms struct {
	mu  sync.Mutex
	all []oauth.Event
}

func (a *alarms) note(_ context.Context, e oauth.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, e)
}

func eventsOf[E oauth.Event](a *alarms) []E {
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

// watched gives the world's client a hook and a policy.
func (w *world) watched(t *testing.T, policy oauth.BreakerPolicy) *alarms {
	t.Helper()
	a := &alarms{}
	w.client = newClient(t, w.platform, func(c *oauth.Config) {
		c.OnEvent, c.Breaker = a.note, policy
		c.Logger = newLogger(w.logs)
	})
	w.source = w.client.TokenSource(w.store, user)
	return a
}

// forgetAll makes the platform refuse every refresh token, as it does when the
// application's scopes are extended.
func (p *platform) forgetAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.grants)
}

func TestBreakerStopsTheRefresherAndAlarmsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, 24*time.Hour)
		a := w.watched(t, oauth.BreakerPolicy{})
		w.connect(t, 100, time.Minute)
		w.platform.forgetAll()
		stop := runs(t, w.client, w.store, oauth.RefreshPolicy{})
		defer stop()
		time.Sleep(14 * time.Minute)
		tripped := eventsOf[oauth.BreakerTripped](a)
		require.Len(t, tripped, 1)
		assert.Equal(t, oauth.DefaultBreakerUsers, tripped[0].Users)
		assert.Equal(t, oauth.DefaultBreakerWindow, tripped[0].Window)
		assert.Equal(t, usSandbox, tripped[0].Subject().Environment)
		until, paused := w.client.RefreshPaused()
		assert.True(t, paused)
		assert.Equal(t, tripped[0].Until, until)
		sent := len(w.platform.sent())
		assert.LessOrEqual(t, sent, 13, "those under way are let finish")
		assert.Len(t, eventsOf[oauth.MustReauthorize](a), oauth.DefaultBreakerUsers, "each marked user is told once")

		// Still the same trouble: pauses, and no other alarm.
		time.Sleep(60 * time.Minute)
		assert.Greater(t, len(w.platform.sent()), sent)
		assert.Less(t, len(w.platform.sent()), 80)
		assert.Len(t, eventsOf[oauth.BreakerTripped](a), 1)
		assert.Equal(t, 1, strings.Count(w.logs.String(), `"level":"ERROR"`))
	})
}

func TestBreakerAlarmsAgainAfterGoodTimes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, 24*time.Hour)
		a := w.watched(t, oauth.BreakerPolicy{})
		w.connect(t, 100, -time.Minute)
		w.platform.forgetAll()
		w.fails(t, 0, 10)
		assert.Len(t, eventsOf[oauth.BreakerTripped](a), 1)
		time.Sleep(31 * time.Minute)
		_, paused := w.client.RefreshPaused()
		assert.False(t, paused)
		w.fails(t, 10, 20)
		assert.Len(t, eventsOf[oauth.BreakerTripped](a), 2)
		w.client.ResumeRefresh()
		_, paused = w.client.RefreshPaused()
		assert.False(t, paused, "an operator may end it")
		w.fails(t, 20, 30)
		assert.Len(t, eventsOf[oauth.BreakerTripped](a), 3)
	})
}

// fails lets calls of some users meet their end.
func (w *world) fails(t *testing.T, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		_, err := w.client.TokenSource(w.store, fmt.Sprintf("many-%d", i)).Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonInvalidGrant)
	}
}

// While the breaker is open nobody else is marked, and a call whose refresh token
// is refused can be repeated: with the user's own token, once the platform is well.
func TestOpenBreakerMarksNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, 24*time.Hour)
		a := w.watched(t, oauth.BreakerPolicy{})
		w.connect(t, 100, -time.Minute)
		known := maps.Clone(w.platform.grants)
		w.platform.forgetAll()
		w.fails(t, 0, 10)
		for range 3 {
			for i := 10; i < 100; i++ {
				_, err := w.client.TokenSource(w.store, fmt.Sprintf("many-%d", i)).Token(t.Context())
				require.NotErrorIs(t, err, oauth.ErrReauthorize)
				var answer *api.Error
				require.ErrorAs(t, err, &answer)
				assert.Equal(t, "invalid_grant", answer.Code)
			}
			time.Sleep(time.Minute)
		}
		assert.Len(t, w.platform.sent(), 100, "each is asked for once in a while")
		assert.Len(t, eventsOf[oauth.MustReauthorize](a), 10)
		w.platform.mu.Lock()
		w.platform.grants = known
		w.platform.mu.Unlock()
		time.Sleep(5 * time.Minute)
		for i := 10; i < 100; i++ {
			_, err := w.client.TokenSource(w.store, fmt.Sprintf("many-%d", i)).Token(t.Context())
			require.NoError(t, err)
		}
		_, paused := w.client.RefreshPaused()
		assert.True(t, paused)
	})
}

// A refused refresh token that a peer has replaced is the race it always is.
func TestOpenBreakerAdoptsWhatAPeerStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, -time.Minute)
		w.watched(t, oauth.BreakerPolicy{})
		w.connect(t, 10, -time.Minute)
		w.platform.forgetAll()
		w.fails(t, 0, 10)
		w.platform.inject(func(handle func() *http.Response) (*http.Response, error) {
			newer := firstToken(time.Hour)
			newer.AccessToken = "access-peer"
			w.save(t, newer)
			return handle(), nil
		})
		w.requireToken(t, "access-peer")
	})
}

func TestSomeRefusalsAreUsual(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy oauth.BreakerPolicy
		run    func(t *testing.T, w *world)
		trips  bool
	}{
		"below the number": {run: func(t *testing.T, w *world) { w.fails(t, 0, 9) }},
		"at the number":    {run: func(t *testing.T, w *world) { w.fails(t, 0, 10) }, trips: true},
		"one user again and again": {run: func(t *testing.T, w *world) {
			for range 20 {
				token := firstToken(-time.Minute)
				token.RefreshToken = "dead"
				w.save(t, token)
				w.source.Forget()
				_, err := w.source.Token(t.Context())
				requireReauthorize(t, err, oauth.ReasonInvalidGrant)
			}
		}},
		"slowly": {run: func(t *testing.T, w *world) {
			for i := range 40 {
				w.fails(t, i, i+1)
				time.Sleep(time.Minute)
			}
		}},
		"among many that work": {run: func(t *testing.T, w *world) {
			for i := range 50 {
				w.platform.mu.Lock()
				w.platform.grants[fmt.Sprintf("refresh-0-%d", i)] = true
				w.platform.mu.Unlock()
				_, err := w.client.TokenSource(w.store, fmt.Sprintf("many-%d", i)).Token(t.Context())
				require.NoError(t, err)
			}
			w.fails(t, 50, 80)
		}},
		"own number": {policy: oauth.BreakerPolicy{Users: 3}, run: func(t *testing.T, w *world) { w.fails(t, 0, 3) }, trips: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, none, -time.Minute)
				a := w.watched(t, test.policy)
				w.connect(t, 100, -time.Minute)
				w.platform.forgetAll()
				test.run(t, w)
				_, paused := w.client.RefreshPaused()
				assert.Equal(t, test.trips, paused)
				assert.Equal(t, test.trips, len(eventsOf[oauth.BreakerTripped](a)) == 1)
			})
		})
	}
}

func TestBreakerPolicyIsChecked(t *testing.T) {
	t.Parallel()
	c := config(newPlatform(none))
	c.Breaker.Pause = -1
	_, err := oauth.New(c)
	var argument *api.ArgumentError
	require.ErrorAs(t, err, &argument)
	assert.Equal(t, "oauth.Config.Breaker", argument.Field)
}

func TestEventsOfAUsersLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, 24*time.Hour)
		a := w.watched(t, oauth.BreakerPolicy{})
		ctx, key := t.Context(), w.client.Key("new")
		record, err := w.client.Connect(ctx, w.store, "new", "code-1", nil)
		require.NoError(t, err)
		assert.Equal(t, key, record.Key)
		stop := runs(t, w.client, w.store, oauth.RefreshPolicy{})
		time.Sleep(110 * time.Minute)
		stop()
		source := w.client.TokenSource(w.store, "new")
		time.Sleep(3 * time.Hour)
		_, err = source.Token(ctx)
		require.NoError(t, err)

		w.store.breaks("Commit", assert.AnError)
		time.Sleep(3 * time.Hour)
		_, err = source.Token(ctx)
		require.ErrorIs(t, err, assert.AnError)
		w.store.breaks("Commit", nil)
		time.Sleep(time.Minute)

		time.Sleep(3 * time.Hour)
		w.platform.inject(answers(401, `{"error":"invalid_client"}`))
		_, err = source.Token(ctx)
		require.Error(t, err)
		time.Sleep(2 * time.Minute)
		w.platform.forgetAll()
		_, err = source.Token(ctx)
		require.ErrorIs(t, err, oauth.ErrReauthorize)
		_, err = source.Token(ctx)
		require.ErrorIs(t, err, oauth.ErrReauthorize)
		require.NoError(t, w.client.Disconnect(ctx, w.store, "new"))

		var told []string
		for _, e := range a.all {
			told = append(told, strings.TrimPrefix(fmt.Sprintf("%T", e), "oauth."))
			want := key
			if _, ok := e.(oauth.ConfigFault); ok {
				want.User = ""
			}
			assert.Equal(t, want, e.Subject())
		}
		assert.Equal(t, []string{
			"Connected", "Refreshed", "Refreshed", "Unwritten", "Refreshed", "ConfigFault", "MustReauthorize", "Disconnected",
		}, told)
		refreshed := eventsOf[oauth.Refreshed](a)
		assert.True(t, refreshed[0].Background)
		assert.False(t, refreshed[1].Background)
		assert.Equal(t, oauth.ReasonInvalidGrant, eventsOf[oauth.MustReauthorize](a)[0].Reason)
	})
}

func TestHookThatPanicsDoesNoHarm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, -time.Minute)
		client := newClient(t, w.platform, func(c *oauth.Config) {
			c.Logger = newLogger(w.logs)
			c.OnEvent = func(context.Context, oauth.Event) { panic(canary) }
		})
		_, err := client.TokenSource(w.store, user).Token(t.Context())
		require.NoError(t, err)
		assert.Contains(t, w.logs.String(), "OnEvent panicked")
		assert.NotContains(t, w.logs.String(), canary)
	})
}
