package tokens_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// One 401 shows nothing about a token that is valid for another hour, and there is nothing to
// replace it with.
func TestTokenWithoutRefreshTokenIsUsedUntilItExpires(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		token := oauthtest.FirstToken(time.Hour)
		token.RefreshToken = ""
		w.save(t, token)
		got, err := w.source.Token(t.Context())
		require.NoError(t, err)
		again, err := w.source.Refresh(t.Context(), got)
		require.NoError(t, err)
		assert.Equal(t, got, again)
		time.Sleep(59 * time.Minute) // past the time for a refresh in the background
		w.requireToken(t, "access-0")
		require.NoError(t, w.conns.Close(t.Context()))
		assert.Equal(t, tokens.StateActive, w.record(t).State)
		time.Sleep(time.Minute)
		w.requireReauthorize(t, tokens.ReasonNoRefreshToken)
		assert.Equal(t, tokens.StateReauthorize, w.record(t).State)
		assert.Empty(t, w.platform.Sent())
	})
}

// Without a known expiry a 401 is the only sign.
func TestTokenWithoutExpiryAndRefreshTokenEndsWithA401(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		token := oauthtest.FirstToken(time.Hour)
		token.RefreshToken, token.ExpiresAt = "", time.Time{}
		w.save(t, token)
		_, err := w.source.Refresh(t.Context(), token.Access())
		requireReauthorize(t, err, tokens.ReasonNoRefreshToken)
	})
}
