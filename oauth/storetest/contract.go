package storetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// contract plays the clauses of each method for a store that is alone.
var contract = map[string]func(*testing.T, opener){
	"NothingIsThere": nothingIsThere,
	"SaveAndLoad":    saveAndLoad,
	"SaveReplaces":   saveReplaces,
	"SaveVersion":    savedVersion,
	"SaveRefuses":    saveRefuses,
	"Tokens":         storedTokens,
	"Delete":         deleted,
	"DeleteVersion":  deletedVersion,
	"Versions":       versions,
	"Commit":         commit,
	"Fail":           fail,
	"Release":        release,
	"Reseal":         reseal,
	"CheckWrite":     checkWrite,
	"EndedContext":   endedContext,
	"ReplicasSeeOne": replicasSeeOne,
	"PrintsNoSecret": printsNoSecret,
}

func nothingIsThere(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	lease := tokens.Lease{Key: user17, Version: 1, Owner: "a"}
	_, err := store.Load(ctx, user17)
	requireError(t, err, tokens.ErrNoRecord)
	_, err = store.Lease(ctx, lease, long)
	requireError(t, err, tokens.ErrNoRecord)
	_, err = store.Commit(ctx, lease, sample(user17, 1))
	requireError(t, err, tokens.ErrNoRecord)
	_, err = store.Fail(ctx, lease, tokens.ReasonInvalidGrant)
	requireError(t, err, tokens.ErrNoRecord)
	require.NoError(t, store.Release(ctx, lease))
	require.NoError(t, store.DeleteVersion(ctx, user17, 1))
	_, err = store.Load(ctx, user17)
	requireError(t, err, tokens.ErrNoRecord, "nothing was made on the way")
}

func saveAndLoad(t *testing.T, open opener) {
	store, began := open(), time.Now()
	saved := save(t, store, user17, 1)
	assert.Equal(t, user17, saved.Key)
	assert.Equal(t, tokens.StateActive, saved.State)
	assert.Empty(t, saved.Reason)
	assert.Positive(t, saved.Version)
	assert.WithinRange(t, saved.UpdatedAt, began.Add(-time.Hour), time.Now().Add(time.Hour), "by the store's clock, which may be wrong, but not that much")
	requireSameToken(t, sample(user17, 1), saved.Token)
	loaded := load(t, store, user17)
	requireSame(t, saved, loaded)
	assert.WithinDuration(t, saved.UpdatedAt, loaded.UpdatedAt, time.Microsecond)
}

func saveReplaces(t *testing.T, open opener) {
	store := open()
	first := save(t, store, user17, 1)
	_, err := store.Fail(t.Context(), take(t, store, first, "a", long), tokens.ReasonInvalidGrant)
	require.NoError(t, err)
	second := save(t, store, user17, 2)
	assert.Equal(t, tokens.StateActive, second.State)
	assert.Empty(t, second.Reason)
	requireSame(t, second, load(t, store, user17))

	lease := take(t, store, second, "a", long)
	third := save(t, store, user17, 3)
	_, err = store.Commit(t.Context(), lease, sample(user17, 4))
	requireError(t, err, tokens.ErrConflict, "what the user authorized is newer")
	_, err = store.Commit(t.Context(), leaseOf(third, "a"), sample(user17, 4))
	requireError(t, err, tokens.ErrConflict, "Save ends the lease")
	take(t, store, third, "b", long)
	requireSame(t, third, load(t, store, user17))
}

func savedVersion(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	_, err := store.SaveVersion(ctx, user17, 1, sample(user17, 1))
	requireError(t, err, tokens.ErrConflict, "there is no record")
	_, err = store.Load(ctx, user17)
	requireError(t, err, tokens.ErrNoRecord)
	first, err := store.SaveVersion(ctx, user17, 0, sample(user17, 1))
	require.NoError(t, err)
	assert.Equal(t, tokens.StateActive, first.State)
	assert.Positive(t, first.Version)
	requireSame(t, first, load(t, store, user17))
	marked, err := store.Fail(ctx, take(t, store, first, "a", long), tokens.ReasonInvalidGrant)
	require.NoError(t, err)
	lease := take(t, store, marked, "a", long)
	same := unchanged(t, store, user17)
	for _, version := range []int64{0, first.Version, marked.Version + 1, -1} {
		_, err := store.SaveVersion(ctx, user17, version, sample(user17, 2))
		requireError(t, err, tokens.ErrConflict, version)
		same()
	}
	second, err := store.SaveVersion(ctx, user17, marked.Version, sample(user17, 2))
	require.NoError(t, err, "a lease does not prevent it")
	assert.Equal(t, tokens.StateActive, second.State)
	assert.Empty(t, second.Reason)
	assert.Greater(t, second.Version, marked.Version)
	requireSameToken(t, sample(user17, 2), second.Token)
	requireSame(t, second, load(t, store, user17))
	_, err = store.Commit(ctx, leaseOf(second, "a"), sample(user17, 3))
	requireError(t, err, tokens.ErrConflict, "SaveVersion ends the lease")
	_, err = store.Commit(ctx, lease, sample(user17, 3))
	requireError(t, err, tokens.ErrConflict)
	requireSame(t, second, load(t, store, user17))
	require.NoError(t, store.DeleteVersion(ctx, user17, second.Version))
	_, err = store.SaveVersion(ctx, user17, second.Version, sample(user17, 4))
	requireError(t, err, tokens.ErrConflict, "a deleted record stays deleted")
}

func saveRefuses(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	record := save(t, store, user17, 1)
	lease := take(t, store, record, "a", long)
	same := unchanged(t, store, user17)
	for name, c := range map[string]struct {
		key   tokens.Key
		token oauth.Token
		want  error
	}{
		"a token of another environment": {user17, sample(tokens.Key{Environment: caSandbox}, 1), api.ErrWrongEnvironment},
		"an empty token":                 {user17, oauth.Token{Environment: usSandbox}, api.ErrInvalidArgument},
	} {
		_, err := store.Save(ctx, c.key, c.token)
		requireError(t, err, c.want, name)
		_, err = store.SaveVersion(ctx, c.key, record.Version, c.token)
		requireError(t, err, c.want, name)
		_, err = store.Commit(ctx, lease, c.token)
		requireError(t, err, c.want, name)
		same()
	}
	for _, user := range []string{"", " user-17", "user-17 ", "a\x00b", "a\nb", "a\xffb", strings.Repeat("x", 256)} {
		key := tokens.Key{Environment: usSandbox, User: user}
		_, err := store.Save(ctx, key, sample(key, 1))
		requireError(t, err, api.ErrInvalidArgument, "%q", user)
	}
	_, err := store.Commit(ctx, lease, sample(user17, 2))
	require.NoError(t, err, "the lease survived")
}

// tokens writes tokens of all shapes and wants them back.
func storedTokens(t *testing.T, open opener) {
	store := open()
	nearEnd := time.Date(2099, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	for name, change := range map[string]func(*oauth.Token){
		"every field":              func(*oauth.Token) {},
		"only an access token":     func(k *oauth.Token) { *k = oauth.Token{AccessToken: api.NewSecret("SECRET-a"), Environment: usSandbox} },
		"no refresh token":         func(k *oauth.Token) { k.RefreshToken = api.Secret{} },
		"times in UTC":             func(k *oauth.Token) { k.CreatedAt, k.ExpiresAt, k.UsedAt = nearEnd, nearEnd, nearEnd },
		"times with nanoseconds":   func(k *oauth.Token) { k.ExpiresAt = nearEnd.Add(999) },
		"times before 1970":        func(k *oauth.Token) { k.CreatedAt = time.Date(1969, 7, 20, 20, 17, 40, 1000, time.UTC) },
		"a long life":              func(k *oauth.Token) { k.Lifetime = 10 * 365 * 24 * time.Hour },
		"secrets of 64 KiB":        func(k *oauth.Token) { k.AccessToken, k.RefreshToken = huge("a"), huge("r") },
		"secrets with quotes":      func(k *oauth.Token) { k.RefreshToken = api.NewSecret(`SECRET-'"\%_;--$1?:x{}`) },
		"secrets in other scripts": func(k *oauth.Token) { k.RefreshToken = api.NewSecret("SECRET-žluťoučký-秘密-🔑") },
		"secrets with space":       func(k *oauth.Token) { k.RefreshToken = api.NewSecret(" SECRET-\ttab and space ") },
		"a scope with space":       func(k *oauth.Token) { k.Scope = " a  b\n" },
		"many scopes":              func(k *oauth.Token) { k.Scope = strings.Repeat("clinic:read ", 500) },
		"an owner of any type":     func(k *oauth.Token) { k.ResourceOwner = oauth.ResourceOwner{ID: "prac-ü/1", Type: "Assistent*in"} },
	} {
		token := sample(user17, 1)
		change(&token)
		saved, err := store.Save(t.Context(), user17, token)
		require.NoError(t, err, name)
		t.Log(name)
		requireSameToken(t, token, saved.Token)
		requireSameToken(t, token, load(t, store, user17).Token)
		lease := take(t, store, saved, "a", long)
		token.Scope += "x"
		committed, err := store.Commit(t.Context(), lease, token)
		require.NoError(t, err, name)
		requireSameToken(t, token, committed.Token)
		failed, err := store.Fail(t.Context(), take(t, store, committed, "b", long), tokens.ReasonInvalidGrant)
		require.NoError(t, err, name)
		requireSameToken(t, token, failed.Token)
		requireSameToken(t, token, load(t, store, user17).Token)
	}
}

// huge is a secret of exactly 64 KiB.
func huge(end string) api.Secret {
	const prefix = "SECRET-"
	return api.NewSecret(prefix + strings.Repeat("é", (64<<10-len(prefix)-len(end))/2) + end)
}

func deleted(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	record := save(t, store, user17, 1)
	other := save(t, store, user18, 2)
	lease := take(t, store, record, "a", long)
	require.NoError(t, store.DeleteVersion(ctx, user17, record.Version))
	require.NoError(t, store.DeleteVersion(ctx, user17, record.Version), "twice is no error")
	_, err := store.Load(ctx, user17)
	requireError(t, err, tokens.ErrNoRecord)
	_, err = store.Commit(ctx, lease, sample(user17, 2))
	requireError(t, err, tokens.ErrNoRecord, "a user who is deleted in the middle of a refresh stays deleted")
	_, err = store.Fail(ctx, lease, tokens.ReasonInvalidGrant)
	requireError(t, err, tokens.ErrNoRecord)
	require.NoError(t, store.Release(ctx, lease))
	_, err = store.Load(ctx, user17)
	requireError(t, err, tokens.ErrNoRecord)

	reborn := save(t, store, user17, 3)
	_, err = store.Commit(ctx, lease, sample(user17, 4))
	requireError(t, err, tokens.ErrConflict, "the lease was on another life")
	_, err = store.Commit(ctx, leaseOf(reborn, "a"), sample(user17, 4))
	requireError(t, err, tokens.ErrConflict, "the lease was forgotten")
	requireSame(t, reborn, load(t, store, user17))
	requireSame(t, other, load(t, store, user18))
}

func deletedVersion(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	first := save(t, store, user17, 1)
	other := save(t, store, user18, 2)
	record := save(t, store, user17, 3)
	lease := take(t, store, record, "a", long)
	same := unchanged(t, store, user17)
	for _, version := range []int64{first.Version, record.Version + 1, 0, -1} {
		requireError(t, store.DeleteVersion(ctx, user17, version), tokens.ErrConflict, version)
		same()
	}
	committed, err := store.Commit(ctx, lease, sample(user17, 4))
	require.NoError(t, err, "the lease was left alone")
	requireError(t, store.DeleteVersion(ctx, user17, record.Version), tokens.ErrConflict, "what was written meanwhile stays")
	take(t, store, committed, "b", long) // does not prevent deletion
	require.NoError(t, store.DeleteVersion(ctx, user17, committed.Version))
	require.NoError(t, store.DeleteVersion(ctx, user17, committed.Version), "twice is no error")
	_, err = store.Load(ctx, user17)
	requireError(t, err, tokens.ErrNoRecord)
	_, err = store.Commit(ctx, leaseOf(committed, "b"), sample(user17, 5))
	requireError(t, err, tokens.ErrNoRecord)
	reborn := save(t, store, user17, 6)
	requireError(t, store.DeleteVersion(ctx, user17, committed.Version), tokens.ErrConflict, "that was another life")
	requireSame(t, reborn, load(t, store, user17))
	requireSame(t, other, load(t, store, user18))
}

func versions(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	var last int64
	next := func(record tokens.Record) tokens.Record {
		t.Helper()
		require.Greater(t, record.Version, last)
		require.Equal(t, record.Version, load(t, store, user17).Version)
		last = record.Version
		return record
	}
	for range 5 {
		next(save(t, store, user17, 1))
		record := next(save(t, store, user17, 1))
		lease := take(t, store, record, "a", long)
		require.NoError(t, store.Release(ctx, lease))
		lease = take(t, store, record, "a", long)
		record, err := store.Commit(ctx, lease, sample(user17, 2))
		require.NoError(t, err)
		next(record)
		record, err = store.Fail(ctx, take(t, store, record, "a", long), tokens.ReasonInvalidGrant)
		require.NoError(t, err)
		next(record)
		require.NoError(t, store.DeleteVersion(ctx, user17, record.Version))
	}
}

// checkWrite requires that a write check succeeds beside other replicas and changes no
// record and no lease.
func checkWrite(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	require.NoError(t, store.CheckWrite(ctx), "an empty store accepts writes")
	record := save(t, store, user17, 1)
	lease := take(t, store, record, "a", long)
	same := unchanged(t, store, user17)
	runConcurrently(open, func(store tokens.Store, _ string) {
		for range 5 {
			assert.NoError(t, store.CheckWrite(ctx))
		}
	})
	same()
	for environment, want := range map[api.Environment]int{usSandbox: 1, caSandbox: 0, {}: 0} {
		all, err := store.List(ctx, tokens.Listing{Environment: environment, Limit: 9})
		require.NoError(t, err)
		assert.Len(t, all, want)
	}
	_, err := store.Lease(ctx, leaseOf(record, "b"), long)
	requireError(t, err, tokens.ErrLeased)
	_, err = store.Commit(ctx, lease, sample(user17, 2))
	require.NoError(t, err, "the lease is still valid")
}

func reseal(t *testing.T, open opener) {
	store := open()
	ctx := t.Context()
	record := save(t, store, user17, 1)
	lease := take(t, store, record, "a", long)
	same := unchanged(t, store, user17)
	requireError(t, store.Reseal(ctx, user18, record.Version, api.NewSecret("x"), api.NewSecret("y")), tokens.ErrNoRecord)
	requireError(t, store.Reseal(ctx, user17, record.Version-1, api.NewSecret("x"), api.NewSecret("y")), tokens.ErrConflict)
	same()
	access, refresh := api.NewSecret("SECRET-other-access"), api.NewSecret("SECRET-other-refresh")
	require.NoError(t, store.Reseal(ctx, user17, record.Version, access, refresh))
	require.NoError(t, store.Reseal(ctx, user17, record.Version, access, refresh), "twice is no error")
	after := load(t, store, user17)
	record.Token.AccessToken, record.Token.RefreshToken = access, refresh
	requireSame(t, record, after)
	_, err := store.Commit(ctx, lease, sample(user17, 2))
	require.NoError(t, err, "the lease is where it was")
}

func endedContext(t *testing.T, open opener) {
	store := open()
	record := save(t, store, user17, 1)
	lease, secret := leaseOf(record, "a"), api.NewSecret("x")
	same := unchanged(t, store, user17)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for ctx, want := range map[context.Context]error{cancelled: context.Canceled, late: context.DeadlineExceeded} {
		for name, call := range map[string]func() error{
			"Load":          func() error { _, err := store.Load(ctx, user17); return err },
			"Save":          func() error { _, err := store.Save(ctx, user17, sample(user17, 2)); return err },
			"SaveVersion":   func() error { _, err := store.SaveVersion(ctx, user17, record.Version, sample(user17, 2)); return err },
			"DeleteVersion": func() error { return store.DeleteVersion(ctx, user17, record.Version) },
			"Lease":         func() error { _, err := store.Lease(ctx, lease, long); return err },
			"Commit":        func() error { _, err := store.Commit(ctx, lease, sample(user17, 2)); return err },
			"Fail":          func() error { _, err := store.Fail(ctx, lease, tokens.ReasonInvalidGrant); return err },
			"Release":       func() error { return store.Release(ctx, lease) },
			"Reseal":        func() error { return store.Reseal(ctx, user17, record.Version, secret, secret) },
			"CheckWrite":    func() error { return store.CheckWrite(ctx) },
		} {
			requireError(t, call(), want, name)
			same()
		}
	}
	take(t, store, record, "b", long)
}

func replicasSeeOne(t *testing.T, open opener) {
	one, two := open(), open()
	record := save(t, one, user17, 1)
	requireSame(t, record, load(t, two, user17))
	lease := take(t, one, record, "a", long)
	_, err := two.Lease(t.Context(), leaseOf(record, "b"), long)
	requireError(t, err, tokens.ErrLeased)
	committed, err := two.Commit(t.Context(), lease, sample(user17, 2))
	require.NoError(t, err, "an owner is a text, not a connection")
	requireSame(t, committed, load(t, one, user17))
	require.NoError(t, two.DeleteVersion(t.Context(), user17, committed.Version))
	_, err = one.Load(t.Context(), user17)
	requireError(t, err, tokens.ErrNoRecord)
}
