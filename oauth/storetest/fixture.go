package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// opener opens a store on the storage of one test: each call is one replica of
// the program. Where replicas cannot share storage, as in memory, it returns the
// same store each time.
type opener func() tokens.Store

var (
	usSandbox = api.Environment{Region: api.US, Stage: api.Sandbox}
	caSandbox = api.Environment{Region: api.Canada, Stage: api.Sandbox}
	usLive    = api.Environment{Region: api.US, Stage: api.Production}

	user17 = tokens.Key{Environment: usSandbox, User: "user-17"}
	user18 = tokens.Key{Environment: usSandbox, User: "user-18"}
)

// long is a time to live that no test waits for, however slow the machine is.
const long = time.Hour

// sample returns a token in which every field is filled, and differs by n.
func sample(key tokens.Key, n int) oauth.Token {
	made := time.Date(2026, 11, 21, 10, 20, 30, 123_456_000+n*1000, time.FixedZone("", -5*3600))
	return oauth.Token{
		AccessToken: api.NewSecret(fmt.Sprintf("SECRET-access-%d", n)), RefreshToken: api.NewSecret(fmt.Sprintf("SECRET-refresh-%d", n)),
		TokenType: "Bearer", CreatedAt: made, ExpiresAt: made.Add(2 * time.Hour), Lifetime: 2*time.Hour + time.Microsecond,
		ConnectedAt: made.Add(-time.Hour), UsedAt: made.Add(time.Second),
		Scope: "catalog:read clinic:read", ConfiguredScope: "catalog:read clinic:read patients:read",
		ResourceOwner: oauth.ResourceOwner{ID: fmt.Sprintf("prac-%d", n), Type: oauth.OwnerPractitioner},
		Clinic:        oauth.Clinic{ID: fmt.Sprintf("cl-%d", n), IntegrationID: fmt.Sprintf("int-%d", n), Name: fmt.Sprintf("Clinic %d", n)}, Environment: key.Environment,
		Replaced: []oauth.ReplacedGrant{
			{AccessToken: api.NewSecret("SECRET-oldest"), RefreshToken: api.NewSecret("SECRET-\xff-oldest-refresh"), ExpiresAt: time.UnixMicro(1).UTC(), Clinic: oauth.Clinic{ID: "cl-0", IntegrationID: "int-0"}},
			{AccessToken: api.NewSecret(fmt.Sprintf("SECRET-replaced-%d", n)), ResourceOwner: oauth.ResourceOwner{ID: "prac-ü", Type: oauth.OwnerStaff}},
		},
	}
}

// save stores sample(key, n).
func save(t testing.TB, store tokens.Store, key tokens.Key, n int) tokens.Record {
	t.Helper()
	record, err := store.Save(t.Context(), key, sample(key, n))
	require.NoError(t, err)
	return record
}

func load(t testing.TB, store tokens.Store, key tokens.Key) tokens.Record {
	t.Helper()
	record, err := store.Load(t.Context(), key)
	require.NoError(t, err)
	return record
}

// take takes the lease on a record.
func take(t testing.TB, store tokens.Store, record tokens.Record, owner string, ttl time.Duration) tokens.Lease {
	t.Helper()
	lease := leaseOf(record, owner)
	leased, err := store.Lease(t.Context(), lease, ttl)
	require.NoError(t, err)
	requireSame(t, record, leased)
	return lease
}

func leaseOf(record tokens.Record, owner string) tokens.Lease {
	return tokens.Lease{Key: record.Key, Version: record.Version, Owner: owner}
}

// deleteCurrent deletes the record in any version.
func deleteCurrent(ctx context.Context, store tokens.Store, key tokens.Key) error {
	for {
		record, err := store.Load(ctx, key)
		if errors.Is(err, tokens.ErrNoRecord) {
			return nil
		}
		if err == nil {
			err = store.DeleteVersion(ctx, key, record.Version)
		}
		if !errors.Is(err, tokens.ErrConflict) {
			return err
		}
	}
}

// requireSame compares records as the contract does: times to the microsecond
// and in any location.
func requireSame(t testing.TB, want, got tokens.Record) {
	t.Helper()
	require.Equal(t, want.Key, got.Key)
	require.Equal(t, want.Version, got.Version)
	require.Equal(t, want.State, got.State)
	require.Equal(t, want.Reason, got.Reason)
	requireSameToken(t, want.Token, got.Token)
}

// requireSameToken looks at every field there is, by reflection: one that is new
// is compared too. Failures show no long secrets.
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
			require.True(t, a == b, "%s: %d bytes came back as %d, or other ones", name, len(a.Reveal()), len(b.Reveal()))
		default:
			require.Equal(t, a, g.Field(i).Interface(), name)
		}
	}
}

// requireError wants a sentinel whose text holds no token.
func requireError(t testing.TB, err, want error, args ...any) {
	t.Helper()
	require.ErrorIs(t, err, want, args...)
	require.NotContains(t, strings.ToUpper(err.Error()), "SECRET-", "no error holds a token")
}

// unchanged returns a check that the record is as it is now.
func unchanged(t testing.TB, store tokens.Store, key tokens.Key) func() {
	t.Helper()
	before := load(t, store, key)
	return func() {
		t.Helper()
		after := load(t, store, key)
		requireSame(t, before, after)
		assert.WithinDuration(t, before.UpdatedAt, after.UpdatedAt, time.Microsecond, "UpdatedAt")
	}
}
