package sqlstore_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/storetest"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// plainSettings are the default settings of a connection.
var plainSettings = map[sqlstore.Dialect]string{sqlstore.MySQL: "?" + countings["changed rows"]}

func TestStorePassesConformanceSuite(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		storetest.Run(t, func(t *testing.T) func() tokenstore.Store {
			d := newDatabase(t, d.dialect)
			d.name += plainSettings[d.dialect]
			return replicasOf(t, d, func(db *sql.DB) tokenstore.Store { return d.store(t, db) })
		})
	})
}

// oddSettings are settings that other programs may need on a server or connection.
var oddSettings = map[sqlstore.Dialect]string{
	sqlstore.PostgreSQL: "&default_transaction_isolation=serializable&default_query_exec_mode=exec&timezone=America/St_Johns",
	sqlstore.MySQL:      "?" + countings["found rows"] + "&interpolateParams=true&collation=latin1_swedish_ci&sql_mode=%27%27&time_zone=%27-05:00%27",
}

// The encrypted store, as programs use it, during a key rotation and with odd settings.
func TestSealedStorePassesConformanceSuite(t *testing.T) {
	testsize.SkipUnderRace(t)
	old, young := newKeys(t).Reveal(), "2027"+strings.TrimPrefix(newKeys(t).Reveal(), "2026")
	rings := []api.Secret{api.NewSecret("+" + young + "," + old), api.NewSecret(young + "," + old)}
	eachDatabase(t, func(t *testing.T, d database) {
		storetest.Run(t, func(t *testing.T) func() tokenstore.Store {
			d := newDatabase(t, d.dialect)
			d.name += oddSettings[d.dialect]
			var opened atomic.Int64
			return replicasOf(t, d, func(db *sql.DB) tokenstore.Store { return d.sealed(t, db, rings[opened.Add(1)%2]) })
		})
	})
}

// replicasOf returns a function that opens stores on three connection pools in turn. A server
// has too few connections for one pool per replica of the suite.
func replicasOf(t *testing.T, d database, open func(*sql.DB) tokenstore.Store) func() tokenstore.Store {
	t.Helper()
	pools := []*sql.DB{d.migrated(t), d.open(t), d.open(t)}
	for _, pool := range pools {
		pool.SetMaxOpenConns(3)
	}
	var opened atomic.Int64
	return func() tokenstore.Store { return open(pools[opened.Add(1)%int64(len(pools))]) }
}

var (
	usSandbox = api.USSandbox
	user17    = tokenstore.Key{Environment: usSandbox, User: "user-17"}
	user18    = tokenstore.Key{Environment: usSandbox, User: "user-18"}
)

func token(access api.Secret) oauth.Token {
	return oauth.Token{
		AccessToken: access, RefreshToken: api.NewSecret("refresh-of-" + access.Reveal()), TokenType: "Bearer", Scope: "catalog:read",
		ExpiresAt: time.Now().Add(time.Hour), Lifetime: defaults.TokenLifetime, Environment: usSandbox,
		ResourceOwner: oauth.ResourceOwner{ID: "prac-1", Type: oauth.ResourceOwnerPractitioner},
	}
}

func save(t testing.TB, store tokenstore.Store) tokenstore.Record {
	t.Helper()
	record, err := store.Save(t.Context(), user17, token(api.NewSecret("access")))
	require.NoError(t, err)
	return record
}

// The pool has one connection. If a method kept it, all later calls would block. If a method
// kept a row lock, the UPDATE of the other connection would block.
func TestLeaseHoldsNoConnection(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db, other := d.migrated(t), d.open(t)
		db.SetMaxOpenConns(1)
		store := d.store(t, db)
		record := save(t, store)
		lease := tokenstore.Lease{Key: user17, Version: record.Version, Owner: "a"}
		_, err := store.Lease(t.Context(), lease, time.Minute)
		require.NoError(t, err)
		assert.Zero(t, db.Stats().InUse)
		d.exec(t, other, "UPDATE dispensary_oauth_tokens SET used_at = used_at + 1")
		_, err = store.Lease(t.Context(), tokenstore.Lease{Key: user17, Version: record.Version, Owner: "b"}, time.Minute)
		require.ErrorIs(t, err, tokenstore.ErrLeased)
		_, err = store.ClaimDue(t.Context(), tokenstore.Due{Environment: usSandbox, Before: time.Now().AddDate(1, 0, 0), Limit: 5, Owner: "c", TTL: time.Minute})
		require.NoError(t, err)
		_, err = store.List(t.Context(), tokenstore.Listing{Environment: usSandbox, Limit: 5})
		require.NoError(t, err)
		_, err = store.Commit(t.Context(), lease, token(api.NewSecret("next")))
		require.NoError(t, err)
		assert.Zero(t, db.Stats().InUse)
	})
}

func TestStoreRejectsInvalidOwners(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		store := d.store(t, d.migrated(t))
		record := save(t, store)
		for _, owner := range []string{"", strings.Repeat("x", 256), "a\x00", "\xff"} {
			lease := tokenstore.Lease{Key: user17, Version: record.Version, Owner: owner}
			_, err := store.Lease(t.Context(), lease, time.Minute)
			require.ErrorIs(t, err, api.ErrArgument)
			_, err = store.ClaimDue(t.Context(), tokenstore.Due{Environment: usSandbox, Limit: 1, Owner: owner})
			require.ErrorIs(t, err, api.ErrArgument)
			_, err = store.Commit(t.Context(), lease, token(api.NewSecret("next")))
			require.ErrorIs(t, err, tokenstore.ErrConflict)
			require.NoError(t, store.Release(t.Context(), lease))
		}
		longest := tokenstore.Lease{Key: user17, Version: record.Version, Owner: strings.Repeat("x", 255)}
		_, err := store.Lease(t.Context(), longest, time.Minute)
		require.NoError(t, err)
	})
}

// A caller does not wait for a locked row or file after its ctx has ended.
func TestContextEndsWaitForWriters(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db, other := d.migrated(t), d.open(t)
		store := d.store(t, db)
		save(t, store)
		conn, err := other.Conn(t.Context())
		require.NoError(t, err)
		begin := map[sqlstore.Dialect]string{sqlstore.SQLite: "BEGIN IMMEDIATE"}[d.dialect]
		_, err = conn.ExecContext(t.Context(), cmp.Or(begin, "BEGIN"))
		require.NoError(t, err)
		_, err = conn.ExecContext(t.Context(), "UPDATE dispensary_oauth_tokens SET used_at = 1")
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err = store.Save(ctx, user17, token(api.NewSecret("next")))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Less(t, time.Since(began), 30*time.Second, "a server waits for a row for 50 seconds or without limit")
		_, err = conn.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		_, err = store.Load(t.Context(), user17)
		require.NoError(t, err, "the store is unusable after a canceled write")
	})
}

// The platform may return tokens with bytes that databases reject in texts.
func TestStoreAcceptsTokensOfAnyBytes(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		store := d.store(t, d.migrated(t))
		odd := token(api.NewSecret("zero \x00 and \xff byte"))
		odd.Scope, odd.ResourceOwner.ID = "zero \x00 byte", "\x00"
		_, err := store.Save(t.Context(), user17, odd)
		require.NoError(t, err)
		loaded, err := store.Load(t.Context(), user17)
		require.NoError(t, err)
		assert.Equal(t, odd.AccessToken.Reveal(), loaded.Token.AccessToken.Reveal())
		assert.Equal(t, odd.Scope, loaded.Token.Scope)
		assert.Equal(t, odd.ResourceOwner, loaded.Token.ResourceOwner)
	})
}

// An unavailable database must not look like a missing or changed record. Otherwise the caller
// would ask the user to authorize again.
func TestUnavailableDatabaseReturnsOtherErrors(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		store, ctx := d.store(t, db), t.Context()
		record := save(t, store)
		lease := tokenstore.Lease{Key: user17, Version: record.Version, Owner: "a"}
		_, err := store.Lease(ctx, lease, time.Minute)
		require.NoError(t, err)
		d.exec(t, d.open(t), "ALTER TABLE dispensary_oauth_tokens RENAME TO away")
		for range 2 { // first without the table, then without the database
			for name, call := range oauthtest.StoreCalls(store, lease, token(api.NewSecret("next"))) {
				err := call(ctx)
				require.Error(t, err, name)
				for _, response := range []error{tokenstore.ErrNoRecord, tokenstore.ErrConflict, tokenstore.ErrLeased, tokenstore.ErrUnreadable} {
					require.NotErrorIs(t, err, response, name)
				}
			}
			require.NoError(t, db.Close())
		}
	})
}

// An unreadable row has its own error and is still listed. A new authorization replaces it. It
// does not block other due records.
func TestUnreadableRowReturnsError(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		store := d.store(t, d.migrated(t))
		unreadable, other := token(api.NewSecret("access")), token(api.NewSecret("b"))
		other.ExpiresAt = unreadable.ExpiresAt.Add(24 * time.Hour)
		_, err := store.Save(t.Context(), user17, unreadable)
		require.NoError(t, err)
		_, err = store.Save(t.Context(), user18, other)
		require.NoError(t, err)
		d.exec(t, d.open(t), map[sqlstore.Dialect]string{
			sqlstore.PostgreSQL: `UPDATE dispensary_oauth_tokens SET details = 'x'::bytea`, sqlstore.MySQL: `UPDATE dispensary_oauth_tokens SET details = 'x'`,
			sqlstore.SQLite: `UPDATE dispensary_oauth_tokens SET details = CAST('x' AS BLOB)`,
		}[d.dialect]+` WHERE username = 'user-17'`)
		due := tokenstore.Due{
			Environment: usSandbox, Before: time.Now().AddDate(1, 0, 0), Limit: 1, Owner: "a", TTL: time.Minute,
			Retry: time.Now().AddDate(1, 0, 1),
		}
		_, err = store.ClaimDue(t.Context(), due)
		require.ErrorIs(t, err, tokenstore.ErrUnreadable)
		claimed, err := store.ClaimDue(t.Context(), due)
		require.NoError(t, err)
		require.Len(t, claimed, 1, "the readable record is claimed next")
		assert.Equal(t, user18, claimed[0].Key)
		claimed, err = store.ClaimDue(t.Context(), due)
		require.NoError(t, err)
		assert.Empty(t, claimed, "the unreadable record is postponed")
		due.From, due.Before = due.Retry, due.Retry.AddDate(0, 0, 1)
		_, err = store.ClaimDue(t.Context(), due)
		require.ErrorIs(t, err, tokenstore.ErrUnreadable, "no lease blocks the unreadable record")
		_, err = store.Load(t.Context(), user17)
		require.ErrorIs(t, err, tokenstore.ErrUnreadable)
		require.NotErrorIs(t, err, tokenstore.ErrNoRecord)
		listed, err := store.List(t.Context(), tokenstore.Listing{Environment: usSandbox, Limit: 9})
		require.NoError(t, err)
		require.Len(t, listed, 2)
		save(t, store)
		_, err = store.Load(t.Context(), user17)
		require.NoError(t, err)
	})
}

func TestStorePrintsNoSecret(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, sqlstore.SQLite)
	assert.Equal(t, "sqlstore.Store{sqlite}", fmt.Sprintf("%+v", d.store(t, d.open(t))))
}

// countings are the two ways in which MySQL and MariaDB count the rows of an UPDATE. The
// connection chooses between changed and found rows. The store must work with both, so
// TestStorePassesConformanceSuite and TestSealedStorePassesConformanceSuite each run the suite
// with one of them.
var countings = map[string]string{"changed rows": "clientFoundRows=false", "found rows": "clientFoundRows=true"}

func eachCounting(t *testing.T, play func(t *testing.T, d database)) {
	t.Helper()
	t.Parallel()
	for name, setting := range countings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t, sqlstore.MySQL)
			d.name += "?" + setting
			play(t, d)
		})
	}
}

// If the clock does not advance, a row stays the same when its owner extends the lease or the
// same ciphertexts are written again.
func TestUnchangedRowsCountAsWritten(t *testing.T) {
	eachCounting(t, func(t *testing.T, d database) {
		d.name += "&timestamp=1800000000.25"
		db := d.migrated(t)
		db.SetMaxOpenConns(1)
		store, ctx := d.store(t, db), t.Context()
		record := save(t, store)
		again := save(t, store)
		assert.Equal(t, record.Version+1, again.Version)
		lease := tokenstore.Lease{Key: user17, Version: again.Version, Owner: "a"}
		for range 3 {
			leased, err := store.Lease(ctx, lease, time.Minute)
			require.NoError(t, err, "the owner extends its lease")
			assert.Equal(t, again.Version, leased.Version)
			assert.Equal(t, tokenstore.StateActive, leased.State)
		}
		_, err := store.Lease(ctx, tokenstore.Lease{Key: user17, Version: again.Version, Owner: "b"}, time.Minute)
		require.ErrorIs(t, err, tokenstore.ErrLeased)
		failed, err := store.Fail(ctx, lease, again.Token, tokenstore.ReasonInvalidGrant)
		require.NoError(t, err)
		assert.Equal(t, again.Version+1, failed.Version)
		for range 3 {
			require.NoError(t, store.Release(ctx, lease))
		}
		lease.Version = failed.Version
		_, err = store.Commit(ctx, lease, token(api.NewSecret("next")))
		require.ErrorIs(t, err, tokenstore.ErrConflict)
		require.ErrorIs(t, store.DeleteVersion(ctx, user17, record.Version), tokenstore.ErrConflict)
		require.NoError(t, store.DeleteVersion(ctx, user17, failed.Version))
		require.NoError(t, store.DeleteVersion(ctx, user17, failed.Version))
	})
}

// While the check of one process commits, its row is locked. The checks of the other processes must
// not wait for it: with slow commits, most of them would be late.
func TestCheckWriteSharesNoRow(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, d.store(t, db).CheckWrite(ctx))
		assert.Zero(t, d.count(t, db, "SELECT count(*) FROM dispensary_oauth_tokens"))
		if d.dialect != sqlstore.PostgreSQL {
			return
		}
		slow, holder := d.open(t), d.open(t)
		for _, one := range []*sql.DB{slow, holder} {
			one.SetMaxOpenConns(1)
		}
		const lock = "pg_advisory_lock(hashtext(current_schema()))"
		d.exec(t, db, `CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF current_setting('test.slow', true) = 'on' THEN PERFORM `+lock+`; END IF; RETURN NULL; END $$`)
		d.exec(t, db, `CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON dispensary_oauth_tokens
			DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()`)
		d.exec(t, slow, "SET test.slow = 'on'")
		d.exec(t, holder, "SELECT "+lock)
		done := make(chan error, 1)
		go func() { done <- d.store(t, slow).CheckWrite(ctx) }()
		require.Eventually(t, func() bool {
			return d.count(t, db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = (hashtext(current_schema())::bigint & 4294967295)::oid") == 1
		}, time.Minute, time.Millisecond)
		require.NoError(t, d.store(t, db).CheckWrite(ctx))
		d.exec(t, holder, "SELECT pg_advisory_unlock_all()")
		require.NoError(t, <-done)
	})
}

func TestClaimFlowDeletesOldFlows(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		store := d.store(t, db)
		claim := func(flow string) string {
			result, err := store.ClaimFlow(t.Context(), tokenstore.FlowClaim{
				Environment: api.USSandbox, Flow: flow, Owner: "a",
			}, time.Minute)
			require.NoError(t, err)
			return result
		}
		claim("old")
		claim("young")
		d.exec(t, db, "UPDATE dispensary_oauth_flows SET claimed_until = 1, result = 'connected' WHERE flow = 'old'")
		assert.Equal(t, "connected", claim("old"))
		claim("new")
		assert.Equal(t, 2, d.count(t, db, "SELECT COUNT(*) FROM dispensary_oauth_flows"))
		assert.Empty(t, claim("old"))
	})
}
