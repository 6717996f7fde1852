package storetest

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// flows tests authorization flows.
var flows = map[string]func(*testing.T, opener){
	"Flow":             flow,
	"FlowIsFreed":      flowIsFreed,
	"FlowClaimExpires": flowClaimExpires,
	"FlowClaimRaces":   flowClaimRaces,
	"FlowArguments":    flowArguments,
}

func claimOf(flow, owner string) tokens.FlowClaim {
	return tokens.FlowClaim{Environment: usSandbox, Flow: flow, Owner: owner}
}

// requireResult claims a flow and compares the result.
func requireResult(t *testing.T, store tokens.Store, claim tokens.FlowClaim, want string) {
	t.Helper()
	result, err := store.ClaimFlow(t.Context(), claim, long)
	require.NoError(t, err)
	require.Equal(t, want, result)
}

func flow(t *testing.T, open opener) {
	one, two, ctx := open(), open(), t.Context()
	a, b := claimOf("f-1", "a"), claimOf("f-1", "b")
	requireResult(t, one, a, "")
	requireResult(t, two, a, "")
	_, err := two.ClaimFlow(ctx, b, long)
	requireError(t, err, tokens.ErrLeased)
	for _, other := range []string{"f-2", "F-1", "f-1-"} {
		requireResult(t, two, claimOf(other, "b"), "")
	}
	elsewhere := b
	elsewhere.Environment = caSandbox
	requireResult(t, two, elsewhere, "")

	require.NoError(t, two.EndFlow(ctx, b, "stolen"))
	require.NoError(t, two.EndFlow(ctx, b, ""))
	_, err = two.ClaimFlow(ctx, b, long)
	requireError(t, err, tokens.ErrLeased)
	require.NoError(t, one.EndFlow(ctx, a, "connected"))
	require.NoError(t, one.EndFlow(ctx, a, "failed"))
	require.NoError(t, one.EndFlow(ctx, a, ""))
	requireResult(t, two, b, "connected")
	requireResult(t, one, a, "connected")
	require.NoError(t, one.EndFlow(ctx, claimOf("unknown", "a"), "connected"))
	requireResult(t, one, claimOf("unknown", "b"), "")

	listed, err := one.List(ctx, tokens.Listing{Environment: usSandbox, Limit: 10})
	require.NoError(t, err)
	assert.Empty(t, listed, "a flow is not a record")
}

func flowIsFreed(t *testing.T, open opener) {
	one, two := open(), open()
	requireResult(t, one, claimOf("f-1", "a"), "")
	require.NoError(t, one.EndFlow(t.Context(), claimOf("f-1", "a"), ""))
	requireResult(t, two, claimOf("f-1", "b"), "")
	_, err := one.ClaimFlow(t.Context(), claimOf("f-1", "a"), long)
	requireError(t, err, tokens.ErrLeased)
}

// A flow whose owner died is never claimed again. A late result still counts.
func flowClaimExpires(t *testing.T, open opener) {
	one, two, ctx := open(), open(), t.Context()
	a, b := claimOf("f-1", "a"), claimOf("f-1", "b")
	began := time.Now()
	_, err := one.ClaimFlow(ctx, a, short)
	require.NoError(t, err)
	for {
		if _, err = two.ClaimFlow(ctx, b, long); !errors.Is(err, tokens.ErrLeased) {
			break
		}
		require.Less(t, time.Since(began), short+patience, "the claim does not expire")
		time.Sleep(5 * time.Millisecond)
	}
	requireError(t, err, tokens.ErrNoResult)
	assert.GreaterOrEqual(t, time.Since(began), short-clockSlack, "the claim expired early")
	require.NoError(t, two.EndFlow(ctx, b, "stolen"))
	requireResult(t, one, a, "")
	require.NoError(t, one.EndFlow(ctx, a, "late"))
	requireResult(t, two, b, "late")
}

func flowClaimRaces(t *testing.T, open opener) {
	for _, id := range []string{"f-1", "f-2", "f-3"} {
		var claimed atomic.Int64
		runConcurrently(open, func(store tokens.Store, owner string) {
			result, err := store.ClaimFlow(t.Context(), claimOf(id, strings.ReplaceAll(owner, " ", "-")), long)
			if err == nil {
				claimed.Add(1)
				assert.Empty(t, result)
				return
			}
			assert.ErrorIs(t, err, tokens.ErrLeased)
		})
		require.EqualValues(t, 1, claimed.Load())
	}
}

func flowArguments(t *testing.T, open opener) {
	store := open()
	for _, claim := range []tokens.FlowClaim{
		{Flow: "f", Owner: "a"}, claimOf("", "a"), claimOf("f", ""), claimOf("f f", "a"), claimOf("f\x00", "a"), claimOf("é", "a"), claimOf(strings.Repeat("f", 256), "a"),
	} {
		_, err := store.ClaimFlow(t.Context(), claim, long)
		require.ErrorIs(t, err, api.ErrInvalidArgument)
		require.ErrorIs(t, store.EndFlow(t.Context(), claim, "x"), api.ErrInvalidArgument)
	}
	longest := claimOf(strings.Repeat("f", 255), strings.Repeat("a", 255))
	requireResult(t, store, longest, "")
	require.NoError(t, store.EndFlow(t.Context(), longest, strings.Repeat("r", 64)))
	requireResult(t, store, longest, strings.Repeat("r", 64))
}
