package storetest

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// flows tests [tokenstore.Store].ClaimFlow and EndFlow.
var flows = map[string]func(*testing.T, opener){
	"Flow":             flow,
	"FlowClaimExpires": flowClaimExpires,
	"FlowClaimRaces":   flowClaimRaces,
	"FlowArguments":    flowArguments,
}

func claimOf(flow, owner string) tokenstore.FlowClaim {
	return tokenstore.FlowClaim{Environment: usSandbox, Flow: flow, Owner: owner}
}

// requireResult requires a claim of the flow to return want.
func requireResult(t *testing.T, store tokenstore.Store, claim tokenstore.FlowClaim, want string) {
	t.Helper()
	result, err := store.ClaimFlow(t.Context(), claim, long)
	require.NoError(t, err)
	require.Equal(t, want, result)
}

// requireClaimed requires another owner to have the claim.
func requireClaimed(t *testing.T, store tokenstore.Store, claim tokenstore.FlowClaim) {
	t.Helper()
	_, err := store.ClaimFlow(t.Context(), claim, long)
	requireError(t, err, tokenstore.ErrLeased)
}

func flow(t *testing.T, open opener) {
	one, two, ctx := open(), open(), t.Context()
	a, b := claimOf("f-1", "a"), claimOf("f-1", "b")
	requireResult(t, one, a, "")
	require.NoError(t, one.EndFlow(ctx, a, ""))
	requireResult(t, two, b, "")
	requireClaimed(t, one, a)
	require.NoError(t, two.EndFlow(ctx, b, ""))

	requireResult(t, one, a, "")
	requireResult(t, two, a, "")
	requireClaimed(t, two, b)
	for _, other := range []string{"f-2", "F-1", "f-1-"} {
		requireResult(t, two, claimOf(other, "b"), "")
	}
	elsewhere := b
	elsewhere.Environment = caSandbox
	requireResult(t, two, elsewhere, "")

	require.NoError(t, two.EndFlow(ctx, b, "stolen"))
	require.NoError(t, two.EndFlow(ctx, b, ""))
	requireClaimed(t, two, b)
	for _, result := range []string{"connected", "failed", ""} { // only the first result is stored
		require.NoError(t, one.EndFlow(ctx, a, result))
	}
	requireResult(t, two, b, "connected")
	requireResult(t, one, a, "connected")
	require.NoError(t, one.EndFlow(ctx, claimOf("unknown", "a"), "connected"))
	requireResult(t, one, claimOf("unknown", "b"), "")
	assert.Empty(t, listed(t, one, tokenstore.Listing{Environment: usSandbox, Limit: 10}), "a flow is not a record")
}

// flowClaimExpires: if the owner of a flow crashes, no other owner may claim the flow. A late
// result must still be stored.
func flowClaimExpires(t *testing.T, open opener) {
	one, two, ctx := open(), open(), t.Context()
	a, b := claimOf("f-1", "a"), claimOf("f-1", "b")
	began := time.Now()
	_, err := one.ClaimFlow(ctx, a, short)
	require.NoError(t, err)
	poll(t, func() bool {
		_, err = two.ClaimFlow(ctx, b, long)
		return err == nil || !isContention(err)
	})
	requireError(t, err, tokenstore.ErrNoResult)
	assert.GreaterOrEqual(t, time.Since(began), short-clockSlack, "the claim expired early")
	require.NoError(t, two.EndFlow(ctx, b, "stolen"))
	requireResult(t, one, a, "")
	require.NoError(t, one.EndFlow(ctx, a, "late"))
	requireResult(t, two, b, "late")
}

func flowClaimRaces(t *testing.T, open opener) {
	for _, id := range []string{"f-1", "f-2", "f-3"} {
		var claimed atomic.Int64
		runConcurrently(open, func(store tokenstore.Store, owner string) {
			result, err := store.ClaimFlow(t.Context(), claimOf(id, owner), long)
			if err == nil {
				claimed.Add(1)
				assert.Empty(t, result)
				return
			}
			assert.ErrorIs(t, err, tokenstore.ErrLeased)
		})
		require.EqualValues(t, 1, claimed.Load())
	}
}

func flowArguments(t *testing.T, open opener) {
	store := open()
	for _, claim := range []tokenstore.FlowClaim{
		{Flow: "f", Owner: "a"}, claimOf("", "a"), claimOf("f", ""), claimOf("f f", "a"), claimOf("f\x00", "a"), claimOf("é", "a"), claimOf(strings.Repeat("f", 256), "a"),
	} {
		_, err := store.ClaimFlow(t.Context(), claim, long)
		require.ErrorIs(t, err, api.ErrArgument)
		require.ErrorIs(t, store.EndFlow(t.Context(), claim, "x"), api.ErrArgument)
	}
	longest := claimOf(strings.Repeat("f", 255), strings.Repeat("a", 255))
	requireResult(t, store, longest, "")
	require.NoError(t, store.EndFlow(t.Context(), longest, strings.Repeat("r", 64)))
	requireResult(t, store, longest, strings.Repeat("r", 64))
}
