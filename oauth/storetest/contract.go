package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// contract tests each method for single records.
var contract = map[string]func(*testing.T, opener){
	"NoRecord":          func(t *testing.T, open opener) { requireAbsent(t, open(), user17, 1) },
	"Save":              saves,
	"SaveVersion":       saveVersion,
	"InvalidTokens":     invalidTokens,
	"Tokens":            storedTokens,
	"DeleteVersion":     deleteVersion,
	"Versions":          versions,
	"CommitAndFail":     writesNeedLease,
	"FailAndComeBack":   failAndComeBack,
	"Release":           release,
	"CheckWrite":        checkWrite,
	"EndedContext":      endedContext,
	"ReplicasShareData": replicasShareData,
	"PrintsNoSecret":    printsNoSecret,
}

// saves tests the common contract of Save and SaveVersion.
func saves(t *testing.T, open opener) {
	store, ctx, began := open(), t.Context(), time.Now()
	for name, write := range map[string]func(key tokenstore.Key, version int64, n int) (tokenstore.Record, error){
		"Save": func(key tokenstore.Key, _ int64, n int) (tokenstore.Record, error) {
			return store.Save(ctx, key, sample(key, n))
		},
		"SaveVersion": func(key tokenstore.Key, version int64, n int) (tokenstore.Record, error) {
			return store.SaveVersion(ctx, key, version, sample(key, n))
		},
	} {
		key := keyOf(name)
		first := written(t)(write(key, 0, 1))
		assert.Equal(t, tokenstore.Record{Key: key, State: tokenstore.StateActive, Version: first.Version, Token: first.Token, UpdatedAt: first.UpdatedAt}, first)
		assert.Positive(t, first.Version)
		assert.WithinRange(t, first.UpdatedAt, began.Add(-time.Hour), time.Now().Add(time.Hour), "the store's clock must be right to the hour")
		requireSameToken(t, sample(key, 1), first.Token)
		loaded := load(t, store, key)
		requireSame(t, first, loaded)
		assert.WithinDuration(t, first.UpdatedAt, loaded.UpdatedAt, time.Microsecond)

		marked := mark(t, store, first)
		lease := take(t, store, marked, "a", long)
		second := written(t)(write(key, marked.Version, 2)) // a lease does not prevent the write
		assert.Equal(t, tokenstore.StateActive, second.State)
		assert.Empty(t, second.Reason)
		assert.Greater(t, second.Version, marked.Version)
		requireSameToken(t, sample(key, 2), second.Token)
		rejected(t, tokenstore.ErrConflict, "the user's new token stays")(store.Commit(ctx, lease, sample(key, 3)))
		rejected(t, tokenstore.ErrConflict, "%s removes the lease", name)(store.Commit(ctx, leaseOf(second, "a"), sample(key, 3)))
		take(t, store, second, "b", long)
		requireSame(t, second, load(t, store, key))
	}
}

func saveVersion(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	rejected(t, tokenstore.ErrConflict, "a version needs a record")(store.SaveVersion(ctx, user17, 1, sample(user17, 1)))
	requireAbsent(t, store, user17, 1)
	first := save(t, store, user17, 1)
	record := save(t, store, user17, 2)
	same := unchanged(t, store, user17)
	for _, version := range []int64{0, first.Version, record.Version + 1, -1} {
		rejected(t, tokenstore.ErrConflict, version)(store.SaveVersion(ctx, user17, version, sample(user17, 3)))
		same()
	}
	require.NoError(t, store.DeleteVersion(ctx, user17, record.Version))
	rejected(t, tokenstore.ErrConflict, "a deleted record stays deleted")(store.SaveVersion(ctx, user17, record.Version, sample(user17, 4)))
}

func invalidTokens(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	record := save(t, store, user17, 1)
	lease := take(t, store, record, "a", long)
	same := unchanged(t, store, user17)
	clinic := record.Token
	clinic.Clinic.ID = strings.Repeat("x", 256)
	for name, c := range map[string]struct {
		token oauth.Token
		want  error
	}{
		"token of another environment": {sample(tokenstore.Key{Environment: caSandbox}, 1), api.ErrWrongEnvironment},
		"empty token":                  {oauth.Token{Environment: usSandbox}, api.ErrArgument},
		"clinic ID of 256 bytes":       {clinic, api.ErrArgument},
	} {
		rejected(t, c.want, name)(store.Save(ctx, user17, c.token))
		rejected(t, c.want, name)(store.SaveVersion(ctx, user17, record.Version, c.token))
		rejected(t, c.want, name)(store.Commit(ctx, lease, c.token))
		rejected(t, c.want, name)(store.Fail(ctx, lease, c.token, tokenstore.ReasonInvalidGrant))
		same()
	}
	written(t)(store.Commit(ctx, lease, sample(user17, 2))) // the lease stays
}

// storedTokens stores tokens of many shapes with Save, Commit and Fail.
func storedTokens(t *testing.T, open opener) {
	store := open()
	nearEnd := time.Date(2099, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	for name, change := range map[string]func(*oauth.Token){
		"only an access token":     func(k *oauth.Token) { *k = oauth.Token{AccessToken: api.NewSecret("SECRET-a"), Environment: usSandbox} },
		"no refresh token":         func(k *oauth.Token) { k.RefreshToken = api.Secret{} },
		"times in UTC":             func(k *oauth.Token) { k.CreatedAt, k.ExpiresAt, k.UsedAt = nearEnd, nearEnd, nearEnd },
		"times with nanoseconds":   func(k *oauth.Token) { k.ExpiresAt = nearEnd.Add(999) },
		"times before 1970":        func(k *oauth.Token) { k.CreatedAt = time.Date(1969, 7, 20, 20, 17, 40, 1000, time.UTC) },
		"long lifetime":            func(k *oauth.Token) { k.Lifetime = 10 * 365 * 24 * time.Hour },
		"secrets of 64 KiB":        func(k *oauth.Token) { k.AccessToken, k.RefreshToken = huge("a"), huge("r") },
		"secrets with quotes":      func(k *oauth.Token) { k.RefreshToken = api.NewSecret(`SECRET-'"\%_;--$1?:x{}`) },
		"secrets in other scripts": func(k *oauth.Token) { k.RefreshToken = api.NewSecret("SECRET-žluťoučký-秘密-🔑") },
		"secrets with space":       func(k *oauth.Token) { k.RefreshToken = api.NewSecret(" SECRET-\ttab and space ") },
		"scope with space":         func(k *oauth.Token) { k.Scope = " a  b\n" },
		"many scopes":              func(k *oauth.Token) { k.Scope = strings.Repeat("clinic:read ", 500) },
		"owner of unknown type":    func(k *oauth.Token) { k.ResourceOwner = oauth.ResourceOwner{ID: "prac-ü/1", Type: "Assistent*in"} },
	} {
		t.Log(name)
		token := sample(user17, 1)
		change(&token)
		saved := written(t)(store.Save(t.Context(), user17, token))
		requireSameToken(t, token, saved.Token)
		requireSameToken(t, token, load(t, store, user17).Token)
		token.Scope += "x"
		committed := written(t)(store.Commit(t.Context(), take(t, store, saved, "a", long), token))
		requireSameToken(t, token, committed.Token)
		requireSameToken(t, token, mark(t, store, committed).Token)
		requireSameToken(t, token, load(t, store, user17).Token)
	}
}

// huge returns a secret of exactly 64 KiB.
func huge(end string) api.Secret {
	const prefix = "SECRET-"
	return api.NewSecret(prefix + strings.Repeat("é", (64<<10-len(prefix)-len(end))/2) + end)
}

func deleteVersion(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	first := save(t, store, user17, 1)
	other := save(t, store, user18, 2)
	record := save(t, store, user17, 3)
	lease := take(t, store, record, "a", long)
	same := unchanged(t, store, user17)
	for _, version := range []int64{first.Version, record.Version + 1, 0, -1} {
		requireError(t, store.DeleteVersion(ctx, user17, version), tokenstore.ErrConflict, version)
		same()
	}
	committed := written(t)(store.Commit(ctx, lease, sample(user17, 4))) // the lease stays
	requireError(t, store.DeleteVersion(ctx, user17, record.Version), tokenstore.ErrConflict, "DeleteVersion keeps a later version")

	lease = take(t, store, committed, "a", long) // a lease does not prevent the deletion
	require.NoError(t, store.DeleteVersion(ctx, user17, committed.Version))
	requireAbsent(t, store, user17, committed.Version)
	again := save(t, store, user17, 5)
	rejected(t, tokenstore.ErrConflict, "the lease was on the deleted record")(store.Commit(ctx, lease, sample(user17, 6)))
	rejected(t, tokenstore.ErrConflict, "the lease was deleted")(store.Commit(ctx, leaseOf(again, "a"), sample(user17, 6)))
	requireError(t, store.DeleteVersion(ctx, user17, committed.Version), tokenstore.ErrConflict, "the version belonged to the deleted record")
	requireSame(t, again, load(t, store, user17))
	requireSame(t, other, load(t, store, user18))
}

func versions(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	var last int64
	next := func(record tokenstore.Record) tokenstore.Record {
		t.Helper()
		require.Greater(t, record.Version, last)
		require.Equal(t, record.Version, load(t, store, user17).Version)
		last = record.Version
		return record
	}
	for range 5 {
		next(save(t, store, user17, 1))
		record := next(save(t, store, user17, 1))
		require.NoError(t, store.Release(ctx, take(t, store, record, "a", long)))
		record = next(written(t)(store.Commit(ctx, take(t, store, record, "a", long), sample(user17, 2))))
		record = next(mark(t, store, record))
		require.NoError(t, store.DeleteVersion(ctx, user17, record.Version))
	}
}

// writesNeedLease tests the common contract of Commit and Fail.
func writesNeedLease(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	other := save(t, store, user18, 9)
	for name, write := range map[string]func(tokenstore.Lease) (tokenstore.Record, error){
		"Commit": func(lease tokenstore.Lease) (tokenstore.Record, error) {
			return store.Commit(ctx, lease, sample(lease.Key, 2))
		},
		"Fail": func(lease tokenstore.Lease) (tokenstore.Record, error) {
			return store.Fail(ctx, lease, sample(lease.Key, 2), tokenstore.ReasonInvalidGrant)
		},
	} {
		key := keyOf(name)
		record := save(t, store, key, 1)
		same := unchanged(t, store, key)
		for _, owner := range []string{"a", ""} {
			rejected(t, tokenstore.ErrConflict, "%s without a lease, owner %q", name, owner)(write(leaseOf(record, owner)))
		}
		lease := take(t, store, record, "a", long)
		for problem, wrong := range map[string]tokenstore.Lease{
			"another owner":   {Key: key, Version: lease.Version, Owner: "A"},
			"no owner":        {Key: key, Version: lease.Version},
			"a later version": {Key: key, Version: lease.Version + 1, Owner: "a"},
			"an old version":  {Key: key, Version: lease.Version - 1, Owner: "a"},
			"another user":    {Key: user18, Version: lease.Version, Owner: "a"},
		} {
			rejected(t, tokenstore.ErrConflict, "%s with %s", name, problem)(write(wrong))
			same()
		}
		next := written(t)(write(lease))
		requireSameToken(t, sample(key, 2), next.Token)
		assert.Greater(t, next.Version, record.Version)
		rejected(t, tokenstore.ErrConflict, "the version is old")(write(lease))
		rejected(t, tokenstore.ErrConflict, "%s removes the lease", name)(write(leaseOf(next, "a")))
		rejected(t, tokenstore.ErrConflict, "Lease rejects an old version")(store.Lease(ctx, leaseOf(record, "b"), long))
		requireSame(t, next, load(t, store, key))
		take(t, store, next, "b", long)
	}
	requireSame(t, other, load(t, store, user18))
}

func failAndComeBack(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	record := save(t, store, user17, 1)
	lease, token := take(t, store, record, "a", long), sample(user17, 3)
	for _, reason := range []tokenstore.Reason{
		tokenstore.ReasonInvalidGrant, tokenstore.ReasonScopesExtended, "one_of_tomorrow",
	} {
		token.Clinic.ID += "x"
		failed := written(t)(store.Fail(ctx, lease, token, reason))
		assert.Equal(t, tokenstore.StateReauthorize, failed.State)
		assert.Equal(t, reason, failed.Reason)
		requireSameToken(t, token, failed.Token)
		requireSame(t, failed, load(t, store, user17))
		assert.Len(t, listed(t, store, tokenstore.Listing{Environment: usSandbox, ClinicID: token.Clinic.ID, Limit: 9}), 1, "Fail stores the clinic for lists")
		lease = take(t, store, failed, "a", long)
	}
	back := written(t)(store.Commit(ctx, lease, sample(user17, 2)))
	assert.Equal(t, tokenstore.StateActive, back.State)
	assert.Empty(t, back.Reason)
	requireSameToken(t, sample(user17, 2), back.Token)
	requireSame(t, back, load(t, store, user17))
}

func release(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	record := save(t, store, user17, 1)
	lease := take(t, store, record, "a", long)
	same := unchanged(t, store, user17)
	for _, foreign := range []tokenstore.Lease{leaseOf(record, "b"), leaseOf(record, ""), {Key: user17, Version: record.Version - 1, Owner: "a"}} {
		require.NoError(t, store.Release(ctx, foreign))
		rejected(t, tokenstore.ErrLeased, "only the owner releases a lease")(store.Lease(ctx, leaseOf(record, "b"), long))
	}
	require.NoError(t, store.Release(ctx, lease))
	require.NoError(t, store.Release(ctx, lease), "a repeated Release returns nil")
	same()
	rejected(t, tokenstore.ErrConflict, "the lease was released")(store.Commit(ctx, lease, sample(user17, 2)))
	rejected(t, tokenstore.ErrConflict)(store.Fail(ctx, lease, sample(user17, 2), tokenstore.ReasonInvalidGrant))
	second := take(t, store, record, "b", long)
	require.NoError(t, store.Release(ctx, lease), "a late Release returns nil")
	written(t)(store.Commit(ctx, second, sample(user17, 2))) // the second lease stays
}

// checkWrite: CheckWrite must succeed on all replicas at once and change no record and no
// lease.
func checkWrite(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	require.NoError(t, store.CheckWrite(ctx), "an empty store accepts writes")
	record := save(t, store, user17, 1)
	lease := take(t, store, record, "a", long)
	same := unchanged(t, store, user17)
	runConcurrently(open, func(store tokenstore.Store, _ string) {
		for range 5 {
			assert.NoError(t, store.CheckWrite(ctx))
		}
	})
	same()
	for environment, want := range map[api.Environment]int{usSandbox: 1, caSandbox: 0, "": 0} {
		assert.Len(t, listed(t, store, tokenstore.Listing{Environment: environment, Limit: 9}), want)
	}
	rejected(t, tokenstore.ErrLeased)(store.Lease(ctx, leaseOf(record, "b"), long))
	written(t)(store.Commit(ctx, lease, sample(user17, 2))) // the lease stays
}

func endedContext(t *testing.T, open opener) {
	store := open()
	record := save(t, store, user17, 1)
	lease := leaseOf(record, "a")
	same := unchanged(t, store, user17)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for ctx, want := range map[context.Context]error{canceled: context.Canceled, late: context.DeadlineExceeded} {
		for name, call := range oauthtest.StoreCalls(store, lease, sample(user17, 2)) {
			requireError(t, call(ctx), want, name)
			same()
		}
	}
	take(t, store, record, "b", long)
}

func replicasShareData(t *testing.T, open opener) {
	one, two := open(), open()
	record := save(t, one, user17, 1)
	requireSame(t, record, load(t, two, user17))
	lease := take(t, one, record, "a", long)
	committed := written(t)(two.Commit(t.Context(), lease, sample(user17, 2))) // a lease belongs to the owner's text, not to a connection
	requireSame(t, committed, load(t, one, user17))
	require.NoError(t, two.DeleteVersion(t.Context(), user17, committed.Version))
	requireAbsent(t, one, user17, committed.Version)
}

func printsNoSecret(t *testing.T, open opener) {
	store := open()
	record := save(t, store, user17, 1)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		assert.NotContains(t, fmt.Sprintf(verb+verb, store, record), "SECRET-")
	}
}
