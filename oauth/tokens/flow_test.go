package tokens_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// returns is work with this result after a delay.
func returns(result string, after time.Duration) func(context.Context) string {
	return func(context.Context) string {
		time.Sleep(after)
		return result
	}
}

// If a replica crashes with the claim, the others wait for at most LeaseTTL.
func TestDeadReplicaEndsRunFlow(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		claim := tokenstore.FlowClaim{Environment: oauthtest.USSandbox, Flow: "flow-1", Owner: "dead"}
		_, err := w.store.ClaimFlow(t.Context(), claim, defaults.LeaseTTL)
		require.NoError(t, err)
		began := time.Now()
		_, ran, err := w.conns.RunFlow(t.Context(), user, "flow-1", returns("connected", 0))
		require.ErrorIs(t, err, tokenstore.ErrNoResult)
		assert.False(t, ran)
		assert.InDelta(t, defaults.LeaseTTL, time.Since(began), float64(2*time.Second))

		ctx, cancel := context.WithCancel(t.Context())
		claim.Flow = "flow-2"
		_, err = w.store.ClaimFlow(t.Context(), claim, defaults.LeaseTTL)
		require.NoError(t, err)
		time.AfterFunc(time.Second, cancel)
		_, _, err = w.conns.RunFlow(ctx, user, "flow-2", returns("connected", 0))
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestRunFlowSurvivesShortStoreOutage(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		for _, method := range []string{"ClaimFlow", "EndFlow"} {
			w.store.Break(method, errors.New("away"))
			time.AfterFunc(3*time.Second, func() { w.store.Break(method, nil) })
			ctx, cancel := context.WithCancel(t.Context())
			result, ran, err := w.conns.RunFlow(ctx, user, "flow-"+method, func(context.Context) string {
				cancel() // the browser has gone away
				return "connected"
			})
			require.NoError(t, err)
			assert.True(t, ran)
			assert.Equal(t, "connected", result)
			result, _, err = w.replica(t).RunFlow(t.Context(), user, "flow-"+method, returns("again", 0))
			require.NoError(t, err)
			assert.Equal(t, "connected", result)
		}
	})
}

func TestRunFlowFailsWithoutStore(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.store.Break("ClaimFlow", errors.New("away"))
		_, ran, err := w.conns.RunFlow(t.Context(), user, "flow-1", func(context.Context) string {
			require.Fail(t, "work ran without a claim")
			return ""
		})
		var failure *tokens.StoreError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, "ClaimFlow", failure.Op)
		assert.Equal(t, user, failure.Key.User)
		assert.False(t, ran)
		for _, flow := range []string{"", "a b", "é"} {
			_, _, err = w.conns.RunFlow(t.Context(), user, flow, returns("", 0))
			require.ErrorIs(t, err, api.ErrArgument)
		}
	})
}
