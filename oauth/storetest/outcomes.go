package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/tokens"
)

func commit(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	record := save(t, store, user17, 1)
	other := save(t, store, user18, 9)
	same := unchanged(t, store, user17)
	for _, owner := range []string{"a", ""} { // no owner owns nothing, however a store keeps "none"
		_, err := store.Commit(ctx, leaseOf(record, owner), sample(user17, 2))
		requireError(t, err, tokens.ErrConflict, "without a lease")
	}
	lease := take(t, store, record, "a", long)
	for name, wrong := range map[string]tokens.Lease{
		"another owner":   {Key: user17, Version: lease.Version, Owner: "A"},
		"no owner":        {Key: user17, Version: lease.Version},
		"a later version": {Key: user17, Version: lease.Version + 1, Owner: "a"},
		"an old version":  {Key: user17, Version: lease.Version - 1, Owner: "a"},
		"another user":    {Key: user18, Version: lease.Version, Owner: "a"},
	} {
		_, err := store.Commit(ctx, wrong, sample(user17, 2))
		requireError(t, err, tokens.ErrConflict, name)
		same()
	}
	committed, err := store.Commit(ctx, lease, sample(user17, 2))
	require.NoError(t, err)
	assert.Equal(t, tokens.StateActive, committed.State)
	requireSameToken(t, sample(user17, 2), committed.Token)
	requireSame(t, committed, load(t, store, user17))

	_, err = store.Commit(ctx, lease, sample(user17, 3))
	requireError(t, err, tokens.ErrConflict, "the version has moved")
	_, err = store.Commit(ctx, leaseOf(committed, "a"), sample(user17, 3))
	requireError(t, err, tokens.ErrConflict, "the lease is over")
	_, err = store.Lease(ctx, leaseOf(record, "b"), long)
	requireError(t, err, tokens.ErrConflict, "an old version cannot be leased")
	requireSame(t, committed, load(t, store, user17))
	take(t, store, committed, "b", long)
	requireSame(t, other, load(t, store, user18))
}

func fail(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	record := save(t, store, user17, 1)
	same := unchanged(t, store, user17)
	for _, owner := range []string{"a", ""} {
		_, err := store.Fail(ctx, leaseOf(record, owner), tokens.ReasonInvalidGrant)
		requireError(t, err, tokens.ErrConflict, "without a lease")
	}
	lease := take(t, store, record, "a", long)
	for _, wrong := range []tokens.Lease{leaseOf(record, "b"), leaseOf(record, ""), {Key: user17, Version: record.Version + 1, Owner: "a"}} {
		_, err := store.Fail(ctx, wrong, tokens.ReasonInvalidGrant)
		requireError(t, err, tokens.ErrConflict)
		same()
	}
	for _, reason := range []tokens.Reason{
		tokens.ReasonInvalidGrant, tokens.ReasonNoRefreshToken, tokens.ReasonScopesExtended, "one_of_tomorrow",
	} {
		failed, err := store.Fail(ctx, lease, reason)
		require.NoError(t, err)
		assert.Equal(t, tokens.StateReauthorize, failed.State)
		assert.Equal(t, reason, failed.Reason)
		assert.Greater(t, failed.Version, lease.Version)
		requireSameToken(t, record.Token, failed.Token)
		requireSame(t, failed, load(t, store, user17))
		_, err = store.Fail(ctx, leaseOf(failed, "a"), reason)
		requireError(t, err, tokens.ErrConflict, "the lease is over")
		lease = take(t, store, failed, "a", long) // in whatever state
	}
	back, err := store.Commit(ctx, lease, sample(user17, 2))
	require.NoError(t, err)
	assert.Equal(t, tokens.StateActive, back.State)
	assert.Empty(t, back.Reason)
	requireSame(t, back, load(t, store, user17))
}

func release(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	record := save(t, store, user17, 1)
	lease := take(t, store, record, "a", long)
	same := unchanged(t, store, user17)
	for _, foreign := range []tokens.Lease{leaseOf(record, "b"), leaseOf(record, ""), {Key: user17, Version: record.Version - 1, Owner: "a"}, {Key: user18, Version: 1, Owner: "a"}} {
		require.NoError(t, store.Release(ctx, foreign))
		_, err := store.Lease(ctx, leaseOf(record, "b"), long)
		requireError(t, err, tokens.ErrLeased, "only its owner ends a lease")
	}
	require.NoError(t, store.Release(ctx, lease))
	require.NoError(t, store.Release(ctx, lease), "twice is no error")
	same()
	_, err := store.Commit(ctx, lease, sample(user17, 2))
	requireError(t, err, tokens.ErrConflict, "a lease that was released is over")
	_, err = store.Fail(ctx, lease, tokens.ReasonInvalidGrant)
	requireError(t, err, tokens.ErrConflict)
	second := take(t, store, record, "b", long)
	require.NoError(t, store.Release(ctx, lease), "late")
	_, err = store.Commit(ctx, second, sample(user17, 2))
	require.NoError(t, err, "it was left alone")
}

func printsNoSecret(t *testing.T, open opener) {
	store := open()
	record := save(t, store, user17, 1)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		assert.NotContains(t, fmt.Sprintf(verb, store), "SECRET-")
		assert.NotContains(t, fmt.Sprintf(verb, record), "SECRET-")
	}
}
