package tokens_test

import (
	"context"
	"io"
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
