package tokens_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// revoke lets the API and the token endpoint reject the user's tokens.
func (w *fixture) revoke(r *resource) {
	w.platform.Kill("refresh-0")
	r.setRefuses(func(access string) bool { return access == "access-0" })
}

// A user who has revoked the application learns it from the first call.
func TestTwoWitnessesMarkUserAtOnce(t *testing.T) {
	oauthtest.Each(t, map[string]func(t *testing.T, w *fixture){
		"no other user": func(*testing.T, *fixture) {},
		"the token of another user works": func(t *testing.T, w *fixture) {
			w.connect(t, 1, time.Hour)
			require.NoError(t, w.ask(t, 0))
		},
		"a peer's refresh was rejected before": func(t *testing.T, w *fixture) {
			token := w.record(t).Token
			token.RejectedAt = time.Now()
			w.save(t, token)
		},
		"a refresh in the background was rejected before": func(t *testing.T, w *fixture) {
			token := oauthtest.FirstToken(4 * time.Minute)
			w.save(t, token)
			w.source.Forget()
			w.requireToken(t, "access-0")
			require.NoError(t, w.conns.Close(t.Context()))
			require.Len(t, w.platform.Sent(), 1)
		},
	}, func(t *testing.T, before func(*testing.T, *fixture)) {
		w, r, a := newFixture(t, oauthtest.RotateNever, time.Hour), &resource{}, &alarms{}
		w.conns = w.replica(t, r.clinicOf(t), func(c *settings) { c.Tokens.Observers = []tokens.Observer{a.observer()} })
		w.source = w.conns.TokenSource(user)
		w.revoke(r)
		peer := w.replica(t).TokenSource(user)
		requireTokenFrom(t, peer, "access-0")
		before(t, w)
		requireReauthorize(t, r.caller(t, w.source)(), tokenstore.ReasonInvalidGrant)
		assert.Equal(t, time.Now(), w.record(t).Token.ExpiresAt, "no replica may use the access token")
		assert.Len(t, eventsOf[*tokens.ReauthorizeError](a), 1)
		w.requireReauthorize(t, tokenstore.ReasonInvalidGrant)
		time.Sleep(30 * time.Second)
		_, err := peer.Token(t.Context())
		requireReauthorize(t, err, tokenstore.ReasonInvalidGrant)
	})
}

// A caller that has the second witness does not get the result of a refresh without it.
func TestSecondWitnessAsksAgain(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 4*time.Minute, func(t *testing.T, w *fixture) {
		r := &resource{}
		w.revoke(r)
		w.platform.Delay = time.Second
		w.requireToken(t, "access-0") // starts a refresh in the background
		requireReauthorize(t, r.caller(t, w.source)(), tokenstore.ReasonInvalidGrant)
		assert.Len(t, w.platform.Sent(), 2)
	})
}

func TestOneWitnessMarksNobodyAtOnce(t *testing.T) {
	oauthtest.Each(t, map[string]func(t *testing.T, w *fixture, r *resource){
		"the expiry is unknown": func(t *testing.T, w *fixture, _ *resource) {
			token := w.record(t).Token
			token.ExpiresAt = time.Time{}
			w.save(t, token)
		},
		"the API rejects another user": func(t *testing.T, w *fixture, r *resource) {
			w.connect(t, 1, time.Hour)
			require.NoError(t, w.ask(t, 0))
			r.setRefuses(everything)
		},
		"another user was rejected before": func(t *testing.T, w *fixture, _ *resource) {
			w.connect(t, 1, -time.Minute)
			w.platform.ForgetAll()
			requireRejected(t, w.ask(t, 0))
		},
	}, func(t *testing.T, before func(*testing.T, *fixture, *resource)) {
		w, r := newFixture(t, oauthtest.RotateNever, time.Hour), &resource{}
		w.conns = w.replica(t, r.clinicOf(t))
		w.revoke(r)
		before(t, w, r)
		source := w.conns.TokenSource(user)
		rejected, err := source.Token(t.Context())
		require.NoError(t, err)
		sent := len(w.platform.Sent())
		for range 5 {
			_, err = source.Refresh(t.Context(), rejected)
			requireRejected(t, err)
			time.Sleep(10 * time.Second)
		}
		assert.Len(t, w.platform.Sent(), sent+1, "calls do not repeat the refresh")
		time.Sleep(10 * time.Second)
		_, err = source.Refresh(t.Context(), rejected)
		requireReauthorize(t, err, tokenstore.ReasonInvalidGrant)
	})
}

// While the login of the platform is away, the API and the token endpoint reject every user. A
// short spell marks nobody, on any replica. Later, a user who really revokes the application is
// marked by the first call.
func TestShortSpellMarksNobody(t *testing.T) {
	const users, replicas = 12, 6
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		r, a := &resource{refuses: func(string) bool { return false }}, &alarms{}
		w.connect(t, users, 3*time.Hour)
		var calls []func() error // of each user on each replica
		for range replicas {
			conns := w.replica(t, r.clinicOf(t), func(c *settings) { c.Tokens.Observers = []tokens.Observer{a.observer()} })
			for i := range users {
				calls = append(calls, r.caller(t, conns.TokenSource(fmt.Sprintf("many-%d", i))))
			}
		}
		requireAll := func() {
			t.Helper()
			require.NoError(t, errors.Join(together(calls)...))
		}
		requireAll()

		undo := w.platform.ForgetAll()
		r.setRefuses(everything)
		random := rand.New(rand.NewPCG(1, 2))
		for end := time.Now().Add(50 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
			require.NotErrorIs(t, calls[random.IntN(len(calls))](), api.ErrReauthorize)
		}
		require.NotErrorIs(t, errors.Join(together(calls)...), api.ErrReauthorize)
		undo()
		r.setRefuses(func(string) bool { return false })
		requireAll()
		assert.Empty(t, eventsOf[*tokens.ReauthorizeError](a))

		time.Sleep(30 * time.Minute)
		w.platform.Kill("refresh-0-0")
		r.setRefuses(func(access string) bool { return access == "access-0-0" })
		requireReauthorize(t, calls[users](), tokenstore.ReasonInvalidGrant)
		assert.Len(t, eventsOf[*tokens.ReauthorizeError](a), 1)
	})
}
