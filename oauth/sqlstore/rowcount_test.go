package sqlstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// countings are the two ways in which MySQL and MariaDB count the rows of an UPDATE,
// a choice of the connection: those that have changed, or those that were found. No
// result of the store hangs on it: the conformance suite is run with both, by
// TestConformance and by TestConformanceSealed.
var countings = map[string]string{"changed rows": "clientFoundRows=false", "found rows": "clientFoundRows=true"}

func eachCounting(t *testing.T, play func(t *testing.T, d database)) {
	t.Helper()
	for name, setting := range countings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t, sqlstore.MySQL)
			d.name += "?" + setting
			play(t, d)
		})
	}
}

// On a clock that stands still nothing of a row changes when its owner prolongs the
// lease, or the same ciphertexts are written again.
func TestStatementsThatChangeNothing(t *testing.T) {
	t.Parallel()
	eachCounting(t, func(t *testing.T, d database) {
		d.name += "&timestamp=1800000000.25"
		db := d.migrated(t)
		db.SetMaxOpenConns(1)
		store, ctx := d.store(t, db), t.Context()
		record := save(t, store)
		again := save(t, store)
		assert.Equal(t, record.Version+1, again.Version)
		lease := tokens.Lease{Key: user17, Version: again.Version, Owner: "a"}
		for range 3 {
			leased, err := store.Lease(ctx, lease, time.Minute)
			require.NoError(t, err, "the owner prolongs its lease")
			assert.Equal(t, again.Version, leased.Version)
			assert.Equal(t, tokens.StateActive, leased.State)
		}
		_, err := store.Lease(ctx, tokens.Lease{Key: user17, Version: again.Version, Owner: "b"}, time.Minute)
		require.ErrorIs(t, err, tokens.ErrLeased)
		for range 3 {
			require.NoError(t, store.Reseal(ctx, user17, again.Version, "access", "refresh"))
		}
		require.ErrorIs(t, store.Reseal(ctx, user17, record.Version, "access", "refresh"), tokens.ErrConflict)
		failed, err := store.Fail(ctx, lease, tokens.ReasonInvalidGrant)
		require.NoError(t, err)
		assert.Equal(t, again.Version+1, failed.Version)
		for range 3 {
			require.NoError(t, store.Release(ctx, lease))
		}
		lease.Version = failed.Version
		_, err = store.Commit(ctx, lease, token("next"))
		require.ErrorIs(t, err, tokens.ErrConflict)
		require.ErrorIs(t, store.DeleteVersion(ctx, user17, record.Version), tokens.ErrConflict)
		require.NoError(t, store.DeleteVersion(ctx, user17, failed.Version))
		require.NoError(t, store.DeleteVersion(ctx, user17, failed.Version))
	})
}
