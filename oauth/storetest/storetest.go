// Package storetest is the conformance suite of [tokenstore.Store]. A store that passes the
// suite can store the tokens of all users for all replicas of a program.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) func() tokenstore.Store {
//			database := newDatabase(t) // empty, and removed after the test
//			return func() tokenstore.Store { return mystore.New(database.Connect()) }
//		})
//	}
//
// The suite tests each method of the interface and then whole programs: many replicas at once,
// leases that expire, replicas that crash with a lease, lost responses, and
// [tokens.Connections] on a platform that replaces refresh tokens.
//
// It takes a few seconds, because the store's own clock measures leases. Run it with the race
// detector too.
package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Run runs the suite, its tests in parallel. Each test calls fresh once for its own empty
// storage, and then calls the returned function once for each replica. If replicas cannot
// share storage, as in memory, that function returns the same store each time. Use t.Cleanup
// to clean up.
func Run(t *testing.T, fresh func(t *testing.T) func() tokenstore.Store) {
	t.Helper()
	for _, section := range []map[string]func(*testing.T, opener){
		contract, keys, leases, races, lists, claims, flows, clusters,
	} {
		for name, test := range section {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, fresh(t))
			})
		}
	}
}

// opener opens the storage of one test for one replica of the program.
type opener func() tokenstore.Store

var (
	usSandbox = api.USSandbox
	caSandbox = api.CanadaSandbox
	usLive    = api.USProduction

	user17 = keyOf("user-17")
	user18 = keyOf("user-18")
)

func keyOf(user string) tokenstore.Key { return tokenstore.Key{Environment: usSandbox, User: user} }

const (
	// long is a lease duration longer than any test.
	long = time.Hour

	// short is a lease duration for tests of expiry.
	short = 300 * time.Millisecond

	// clockSlack is the tolerance for a store's clock with another speed or resolution than
	// this process's.
	clockSlack = 20 * time.Millisecond

	// patience is the time after which a test fails if a lease does not expire, for example
	// because of a wrong unit.
	patience = time.Minute
)

// sample returns a token with all fields set. Tokens with different n differ.
func sample(key tokenstore.Key, n int) oauth.Token {
	made := time.Date(2026, 11, 21, 10, 20, 30, 123_456_000+n*1000, time.FixedZone("", -5*3600))
	return oauth.Token{
		AccessToken: api.NewSecret(fmt.Sprintf("SECRET-access-%d", n)), RefreshToken: api.NewSecret(fmt.Sprintf("SECRET-refresh-%d", n)),
		TokenType: "Bearer", CreatedAt: made, ExpiresAt: made.Add(2 * time.Hour), Lifetime: 2*time.Hour + time.Microsecond,
		ConnectedAt: made.Add(-time.Hour), UsedAt: made.Add(time.Second), RejectedAt: made.Add(time.Minute),
		Scope: "catalog:read clinic:read", ConfiguredScope: "catalog:read clinic:read patients:read",
		ResourceOwner: oauth.ResourceOwner{ID: fmt.Sprintf("prac-%d", n), Type: oauth.ResourceOwnerPractitioner},
		Clinic:        oauth.Clinic{ID: fmt.Sprintf("cl-%d", n), IntegrationID: fmt.Sprintf("int-%d", n), Name: fmt.Sprintf("Clinic %d", n)}, Environment: key.Environment,
		Replaced: []oauth.ReplacedGrant{
			{AccessToken: api.NewSecret("SECRET-oldest"), RefreshToken: api.NewSecret("SECRET-\xff-oldest-refresh"), ExpiresAt: time.UnixMicro(1).UTC(), Clinic: oauth.Clinic{ID: "cl-0", IntegrationID: "int-0"}},
			{AccessToken: api.NewSecret(fmt.Sprintf("SECRET-replaced-%d", n)), ResourceOwner: oauth.ResourceOwner{ID: "prac-ü", Type: oauth.ResourceOwnerStaff}},
		},
	}
}

// save stores sample(key, n).
func save(t testing.TB, store tokenstore.Store, key tokenstore.Key, n int) tokenstore.Record {
	t.Helper()
	return written(t)(store.Save(t.Context(), key, sample(key, n)))
}

func load(t testing.TB, store tokenstore.Store, key tokenstore.Key) tokenstore.Record {
	t.Helper()
	return written(t)(store.Load(t.Context(), key))
}

// take takes the lease on record. The call must return an equal record.
func take(t testing.TB, store tokenstore.Store, record tokenstore.Record, owner string, ttl time.Duration) tokenstore.Lease {
	t.Helper()
	lease := leaseOf(record, owner)
	requireSame(t, record, written(t)(store.Lease(t.Context(), lease, ttl)))
	return lease
}

func leaseOf(record tokenstore.Record, owner string) tokenstore.Lease {
	return tokenstore.Lease{Key: record.Key, Version: record.Version, Owner: owner}
}

// written returns the record of a call and requires success.
func written(t testing.TB) func(tokenstore.Record, error) tokenstore.Record {
	return func(record tokenstore.Record, err error) tokenstore.Record {
		t.Helper()
		require.NoError(t, err)
		return record
	}
}

// rejected requires a call to fail with want.
func rejected(t testing.TB, want error, args ...any) func(tokenstore.Record, error) {
	return func(_ tokenstore.Record, err error) {
		t.Helper()
		requireError(t, err, want, args...)
	}
}

// mark sets a record to StateReauthorize.
func mark(t testing.TB, store tokenstore.Store, record tokenstore.Record) tokenstore.Record {
	t.Helper()
	return written(t)(store.Fail(t.Context(), take(t, store, record, "marker", long), record.Token, tokenstore.ReasonInvalidGrant))
}

// isContention reports whether another owner was first.
func isContention(err error) bool {
	return errors.Is(err, tokenstore.ErrConflict) || errors.Is(err, tokenstore.ErrLeased)
}

// requireSame compares records as the contract defines: times to the microsecond, in any
// location.
func requireSame(t testing.TB, want, got tokenstore.Record) {
	t.Helper()
	require.Equal(t, want.Key, got.Key)
	require.Equal(t, want.Version, got.Version)
	require.Equal(t, want.State, got.State)
	require.Equal(t, want.Reason, got.Reason)
	requireSameToken(t, want.Token, got.Token)
}

// requireSameToken compares every field by reflection, so it also compares a future field. A
// failure does not print the secrets.
func requireSameToken(t testing.TB, want, got oauth.Token) {
	t.Helper()
	w, g := reflect.ValueOf(want), reflect.ValueOf(got)
	for i := range w.NumField() {
		name := "Token." + w.Type().Field(i).Name
		switch a := w.Field(i).Interface().(type) {
		case time.Time:
			b := g.Field(i).Interface().(time.Time)
			require.Equal(t, a.IsZero(), b.IsZero(), name)
			require.WithinDuration(t, a, b, time.Microsecond, name)
		case api.Secret:
			b := g.Field(i).Interface().(api.Secret)
			require.True(t, a == b, "%s: stored %d bytes, got %d bytes or other content", name, len(a.Reveal()), len(b.Reveal()))
		default:
			require.Equal(t, a, g.Field(i).Interface(), name)
		}
	}
}

// requireError requires err to match want and to contain no token in its text.
func requireError(t testing.TB, err, want error, args ...any) {
	t.Helper()
	require.ErrorIs(t, err, want, args...)
	require.NotContains(t, strings.ToUpper(err.Error()), "SECRET-", "the error contains a token")
}

// requireAbsent requires every method to find and create no record under key.
func requireAbsent(t testing.TB, store tokenstore.Store, key tokenstore.Key, version int64) {
	t.Helper()
	ctx, lease := t.Context(), tokenstore.Lease{Key: key, Version: version, Owner: "a"}
	rejected(t, tokenstore.ErrNoRecord, "Lease of %.20q", key.User)(store.Lease(ctx, lease, long))
	if key.Validate() == nil {
		rejected(t, tokenstore.ErrNoRecord, "Fail of %.20q", key.User)(store.Fail(ctx, lease, sample(key, 1), tokenstore.ReasonInvalidGrant))
		rejected(t, tokenstore.ErrNoRecord, "Commit of %.20q", key.User)(store.Commit(ctx, lease, sample(key, 1)))
	}
	require.NoError(t, store.Release(ctx, lease), "Release of %.20q", key.User)
	require.NoError(t, store.Postpone(ctx, lease, time.Now()), "Postpone of %.20q", key.User)
	require.NoError(t, store.DeleteVersion(ctx, key, version), "DeleteVersion of %.20q", key.User)
	rejected(t, tokenstore.ErrNoRecord, "Load of %.20q", key.User)(store.Load(ctx, key))
}

// unchanged returns a function to check for changes of the record since then.
func unchanged(t testing.TB, store tokenstore.Store, key tokenstore.Key) func() {
	t.Helper()
	before := load(t, store, key)
	return func() {
		t.Helper()
		after := load(t, store, key)
		requireSame(t, before, after)
		assert.WithinDuration(t, before.UpdatedAt, after.UpdatedAt, time.Microsecond, "UpdatedAt")
	}
}

// poll calls try until it returns true.
func poll(t testing.TB, try func() bool) {
	t.Helper()
	for end := time.Now().Add(short + patience); !try(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "the lease does not expire")
	}
}

const (
	replicas = 3
	callers  = 8 // per replica
)

// runConcurrently runs act for every caller of every replica at once and waits for all of
// them. The owner of the first caller of the first replica is "0-0".
func runConcurrently(open opener, act func(store tokenstore.Store, owner string)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for replica := range replicas {
		store := open()
		for caller := range callers {
			wg.Go(func() {
				<-start
				act(store, fmt.Sprintf("%d-%d", replica, caller))
			})
		}
	}
	close(start)
	wg.Wait()
}
