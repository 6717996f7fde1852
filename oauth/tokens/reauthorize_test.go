package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
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

// One 401 shows nothing about a token that is valid for another hour, and no other token can
// replace it.
func TestUnrefreshableTokenServesUntilExpiry(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		token := oauthtest.FirstToken(time.Hour)
		token.RefreshToken = api.Secret{}
		w.save(t, token)
		got, err := w.source.Token(t.Context())
		require.NoError(t, err)
		again, err := w.source.Refresh(t.Context(), got)
		require.NoError(t, err)
		assert.Equal(t, got, again)
		time.Sleep(59 * time.Minute) // after the start of background refreshes
		w.requireToken(t, "access-0")
		require.NoError(t, w.conns.Close(t.Context()))
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)
		time.Sleep(time.Minute)
		w.requireReauthorize(t, tokenstore.ReasonInvalidGrant)
		assert.Equal(t, tokenstore.StateReauthorize, w.record(t).State)
		assert.Empty(t, w.platform.Sent())
	})
}

// Without a known expiry, a 401 is the only sign.
func TestRejectedUnrefreshableTokenMarksUser(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		token := oauthtest.FirstToken(time.Hour)
		token.RefreshToken, token.ExpiresAt = api.Secret{}, time.Time{}
		w.save(t, token)
		_, err := w.source.Refresh(t.Context(), token.Access())
		requireReauthorize(t, err, tokenstore.ReasonInvalidGrant)
	})
}

// clockStore is a store with a fast clock.
type clockStore struct {
	tokenstore.Store
	ahead time.Duration
}

func (s clockStore) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	record, err := s.Store.Load(ctx, key)
	record.UpdatedAt = record.UpdatedAt.Add(s.ahead)
	return record, err
}

func TestStoreClockDelaysNoRetry(t *testing.T) {
	oauthtest.Each(t, oauthtest.ByName(-2*time.Hour, -time.Second, 0, time.Second, 2*time.Hour), func(t *testing.T, ahead time.Duration) {
		w := newFixture(t, oauthtest.RotateNever, -time.Minute)
		conns := w.on(t, clockStore{w.store, ahead})
		undo := w.platform.ForgetAll()
		requireMark(t, conns.TokenSource(user))
		undo()
		_, err := conns.TokenSource(user).Token(t.Context())
		requireReauthorize(t, err, tokenstore.ReasonInvalidGrant)
		assert.Len(t, w.platform.Sent(), 2, "no retry at once")
		time.Sleep(2 * time.Minute)
		requireTokenOf(t, conns, "access-1")
	})
}

// asOwner is a fault that changes the owner of the new token.
func asOwner(t *testing.T, id string) oauthtest.Fault {
	return oauthtest.Changes(func(response *http.Response) {
		body := oauthtest.ReadBody(t, response)
		response.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(body, "prac-1", id)))
		response.ContentLength = -1
	})
}

func TestOtherOwnersTokenIsNotStored(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		w.platform.Inject(asOwner(t, "prac-2"))
		_, err := w.source.Token(t.Context())
		mark := requireReauthorize(t, err, tokenstore.ReasonOwnerChanged)
		require.ErrorIs(t, mark, oauth.ErrOwnerChanged)
		record := w.record(t)
		assert.Equal(t, "prac-1", record.Token.ResourceOwner.ID)
		assert.Equal(t, "access-0", record.Token.AccessToken.Reveal())
		assert.Len(t, eventsOf[*tokens.ReauthorizeError](a), 1)
		assert.Contains(t, w.logs.String(), "another account")
		assert.Empty(t, w.revoked(), "the token may belong to another user")
		w.requireReauthorize(t, tokenstore.ReasonOwnerChanged)

		time.Sleep(2 * time.Minute) // the platform had mixed up two responses
		w.requireToken(t, "access-2")
		assert.Len(t, eventsOf[restored](a), 1)
	})
}

func TestRetriesOfOtherOwnerSlowDown(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(oauthtest.Times(1000, asOwner(t, "prac-2"))...)
		for range 6 * 60 {
			w.requireReauthorize(t, tokenstore.ReasonOwnerChanged)
			time.Sleep(time.Minute)
		}
		assert.Less(t, len(w.platform.Sent()), 6*60/7)
	})
}

// revoke lets the API and the token endpoint reject the user's tokens.
func (w *fixture) revoke(r *resource) {
	w.platform.Kill("refresh-0")
	r.setRejects(func(access string) bool { return access == "access-0" })
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
			r.setRejects(everything)
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
		r, a := &resource{rejects: func(string) bool { return false }}, &alarms{}
		w.connect(t, users, 3*time.Hour)
		var calls []func() error // of each user on each replica
		for range replicas {
			conns := w.replica(t, r.clinicOf(t), func(c *settings) { c.Tokens.Observers = []tokens.Observer{a.observer()} })
			for i := range users {
				calls = append(calls, r.caller(t, conns.TokenSource(fmt.Sprintf("many-%d", i))))
			}
		}
		requireAll := func(calls []func() error) {
			t.Helper()
			require.NoError(t, errors.Join(together(calls)...))
		}
		requireAll(calls[:len(calls)/2]) // the other replicas are new

		undo := w.platform.ForgetAll()
		r.setRejects(everything)
		random := rand.New(rand.NewPCG(1, 2))
		for end := time.Now().Add(50 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
			require.NotErrorIs(t, calls[random.IntN(len(calls))](), api.ErrReauthorize)
		}
		require.NotErrorIs(t, errors.Join(together(calls)...), api.ErrReauthorize)
		undo()
		r.setRejects(func(string) bool { return false })
		requireAll(calls)
		assert.Empty(t, eventsOf[*tokens.ReauthorizeError](a))

		time.Sleep(30 * time.Minute)
		w.platform.Kill("refresh-0-0")
		r.setRejects(func(access string) bool { return access == "access-0-0" })
		requireReauthorize(t, calls[users](), tokenstore.ReasonInvalidGrant)
		assert.Len(t, eventsOf[*tokens.ReauthorizeError](a), 1)
	})
}
