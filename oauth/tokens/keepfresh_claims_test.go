package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// A limiter that takes its time is not waited for with other users' leases in hand:
// a call on another replica gets its token at once.
func TestClaimsDoNotWaitForTheLimiter(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 12, -time.Minute)
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{Limiter: &ticker{every: 4 * time.Second}})
		defer stop()
		peer := w.replica(t)
		time.Sleep(5 * time.Second) // one is refreshed
		for i := range 12 {
			began := time.Now()
			_, err := peer.TokenSource(fmt.Sprintf("many-%d", i)).Token(t.Context())
			require.NoError(t, err)
			assert.Less(t, time.Since(began), time.Second)
			time.Sleep(900 * time.Millisecond)
		}
		assert.Len(t, w.platform.Sent(), 12)
	})
}

// Nor is a worker.
func TestClaimsDoNotWaitForAWorker(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 12, -time.Minute)
		w.platform.Delay = 9 * time.Second
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{Workers: 2})
		defer stop()
		time.Sleep(3 * time.Second)
		claimed, err := w.store.ClaimDue(t.Context(), tokens.Due{Environment: oauthtest.USSandbox, Before: time.Now(), Limit: 100, Owner: "me", TTL: time.Second})
		require.NoError(t, err)
		assert.Len(t, claimed, 10)
	})
}

// A limiter that lets nothing pass sends the claims back; if the store does not
// take them they run out.
func TestClaimsThatCannotBeReleasedEndByThemselves(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 2, time.Minute)
		w.store.Break("Release", errors.New("away"))
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{Limiter: &closed{open: 1, waits: 1}})
		defer stop()
		time.Sleep(10 * time.Second)
		assert.Len(t, w.platform.Sent(), 1)
		assert.Equal(t, 1, strings.Count(w.logs.String(), "a lease could not be released"))
		time.Sleep(5 * time.Minute)
		assert.Len(t, w.platform.Sent(), 2)
	})
}

// closed is a limiter that lets some pass, then refuses some, then none.
type closed struct{ open, waits int }

func (c *closed) Wait(context.Context) error {
	if c.open--; c.open >= 0 {
		return nil
	}
	if c.waits--; c.waits >= 0 {
		return errors.New("not now")
	}
	return nil
}
