package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// BenchmarkUsers measures a table of many users: its size, the operations of one user, and
// ClaimDue with and without due records. Nine in ten users have made no calls for more than a
// week. Their tokens are due but must not be claimed.
//
//	DISPENSARY_TEST_FULL=1 go test -run '^$' -bench Users -benchtime 1000x ./oauth/sqlstore
func BenchmarkUsers(b *testing.B) {
	for _, dialect := range []sqlstore.Dialect{sqlstore.SQLite, sqlstore.PostgreSQL, sqlstore.MySQL} {
		b.Run(string(dialect), func(b *testing.B) {
			d := newDatabase(b, dialect)
			db := d.migrated(b)
			u := &users{d: d, db: db, store: d.store(b, db), n: testsize.Of(10_000, 1_000_000)}
			u.fill(b)
			b.Run("Load", func(b *testing.B) { u.time(b, u.load) })
			b.Run("LeaseAndCommit", func(b *testing.B) { u.time(b, u.refresh) })
			b.Run("ClaimNothing", func(b *testing.B) { u.time(b, u.claim(time.Now(), 0)) })
			b.Run("ClaimDue", func(b *testing.B) { u.time(b, u.claim(time.Now().AddDate(0, 0, 1), 4)) })
		})
	}
}

type users struct {
	d     database
	db    *sql.DB
	store tokenstore.Store
	n     int
}

// fill copies one user many times. The secrets are as long as encrypted ones.
func (u *users) fill(b *testing.B) {
	b.Helper()
	_, err := u.store.Save(b.Context(), user17, token(api.NewSecret(strings.Repeat("access", 20))))
	require.NoError(b, err)
	series := map[sqlstore.Dialect]string{
		sqlstore.SQLite:     "(WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d) SELECT i FROM s) s",
		sqlstore.PostgreSQL: "(SELECT i FROM generate_series(1, %d::bigint) i) s",
		sqlstore.MySQL:      "(SELECT seq AS i FROM seq_1_to_%d) s",
	}
	name := map[sqlstore.Dialect]string{sqlstore.MySQL: "concat('practitioner-', i)"}
	named, ok := name[u.d.dialect]
	if !ok {
		named = "'practitioner-' || i"
	}
	// One user in ten has calls. The last calls of the other users are spread over the year
	// before last week.
	const week, year = int64(7 * 24 * time.Hour / time.Microsecond), int64(365 * 24 * time.Hour / time.Microsecond)
	ago := fmt.Sprintf("(%d + i * %d)", week, year/int64(u.n))
	u.exec(b, fmt.Sprintf(`INSERT INTO dispensary_oauth_tokens (environment, username, version, state, reason, access_token, refresh_token, details,
			clinic_id, due_at, used_at, lease_owner, lease_until)
		SELECT environment, %[1]s, version, state, reason, access_token, refresh_token, details, clinic_id,
			CASE WHEN i %% 10 = 0 THEN due_at + i ELSE due_at - %[2]s END, CASE WHEN i %% 10 = 0 THEN version ELSE version - %[2]s END, '', 0
		FROM dispensary_oauth_tokens, `+fmt.Sprintf(series[u.d.dialect], u.n), named, ago))
	if u.d.dialect == sqlstore.PostgreSQL {
		u.exec(b, "VACUUM ANALYZE dispensary_oauth_tokens")
		var size float64
		require.NoError(b, u.db.QueryRowContext(b.Context(), "SELECT pg_total_relation_size('dispensary_oauth_tokens')").Scan(&size))
		b.Logf("%d users: %.0f MB", u.n, size/(1<<20))
	}
}

func (u *users) exec(b *testing.B, query string) {
	b.Helper()
	_, err := u.db.ExecContext(context.Background(), query)
	require.NoError(b, err)
}

// time reports the median and the 99th percentile of the duration of an operation.
func (u *users) time(b *testing.B, operation func(testing.TB) func()) {
	var took []time.Duration
	for range b.N {
		began := time.Now()
		undo := operation(b)
		took = append(took, time.Since(began))
		undo()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
	b.ReportMetric(float64(took[(len(took)-1)*99/100].Microseconds()), "µs-p99")
	b.ReportMetric(0, "ns/op")
}

func (u *users) any() tokenstore.Key {
	return tokenstore.Key{Environment: usSandbox, User: fmt.Sprintf("practitioner-%d", 1+rand.IntN(u.n))}
}

func (u *users) load(b testing.TB) func() {
	_, err := u.store.Load(b.Context(), u.any())
	require.NoError(b, err)
	return func() {}
}

func (u *users) refresh(b testing.TB) func() {
	record, err := u.store.Load(b.Context(), u.any())
	require.NoError(b, err)
	lease := tokenstore.Lease{Key: record.Key, Version: record.Version, Owner: "a"}
	_, err = u.store.Lease(b.Context(), lease, time.Minute)
	require.NoError(b, err)
	record.Token.UsedAt = time.Now()
	_, err = u.store.Commit(b.Context(), lease, record.Token)
	require.NoError(b, err)
	return func() {}
}

// claim claims records that are due before a time, of users with calls in the last week.
func (u *users) claim(before time.Time, want int) func(testing.TB) func() {
	return func(b testing.TB) func() {
		due := tokenstore.Due{
			Environment: usSandbox, From: time.Now().AddDate(0, 0, -8), Before: before, UsedSince: time.Now().AddDate(0, 0, -7),
			Limit: 4, Owner: "a", TTL: time.Hour,
		}
		claimed, err := u.store.ClaimDue(b.Context(), due)
		require.NoError(b, err)
		require.Len(b, claimed, want)
		return func() {
			for _, record := range claimed {
				require.NoError(b, u.store.Release(context.Background(), tokenstore.Lease{Key: record.Key, Version: record.Version, Owner: "a"}))
			}
		}
	}
}
