package sqlstore_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// Each operation of the store takes turns with its floor, a bare SELECT or UPDATE
// of the same row, and is reported as the ratio to it (x-bare).
func BenchmarkStore(b *testing.B) {
	for _, dialect := range []sqlstore.Dialect{sqlstore.SQLite, sqlstore.PostgreSQL, sqlstore.MySQL} {
		b.Run(string(dialect), func(b *testing.B) {
			d := newDatabase(b, dialect)
			r := &race{d: d, db: d.migrated(b)}
			r.store = d.store(b, r.db)
			record, err := r.store.Save(b.Context(), user17, token(api.NewSecret("access")))
			require.NoError(b, err)
			r.version = record.Version
			b.Run("Load", func(b *testing.B) { r.run(b, r.sel, r.load) })
			b.Run("SealedLoad", func(b *testing.B) { r.sealedLoad(b) })
			b.Run("Save", func(b *testing.B) { r.run(b, r.upd, r.save) })
			b.Run("Lease", func(b *testing.B) { r.run(b, r.upd, r.lease) })
			b.Run("LeaseAndCommit", func(b *testing.B) { r.run(b, r.upd, r.commit) })
			b.Run("Reseal", func(b *testing.B) { r.run(b, r.upd, r.reseal) })
			b.Run("ClaimDue100Of10000", func(b *testing.B) { r.claim(b) })
		})
	}
}

// race is a store beside its database.
type race struct {
	d       database
	db      *sql.DB
	store   tokens.Store
	version int64
	seals   int
	due     int
}

// run times both, one after the other, b.N times.
func (r *race) run(b *testing.B, bare, work func(testing.TB)) {
	b.Helper()
	var floor, own time.Duration
	for b.Loop() {
		began := time.Now()
		bare(b)
		middle := time.Now()
		work(b)
		floor, own = floor+middle.Sub(began), own+time.Since(middle)
	}
	b.ReportMetric(float64(own)/float64(floor), "x-bare")
	b.ReportMetric(float64(own.Microseconds())/float64(b.N), "µs/op")
	b.ReportMetric(0, "ns/op")
}

// query fills the table and the dialect's places in.
func (r *race) query(text string) string {
	if r.d.dialect == sqlstore.PostgreSQL {
		return fmt.Sprintf(text, r.d.prefix, "$1", "$2")
	}
	return fmt.Sprintf(text, r.d.prefix, "?", "?")
}

func (r *race) sel(b testing.TB) {
	var secret []byte
	query := r.query("SELECT access_token FROM %soauth_tokens WHERE environment = %s AND username = %s")
	require.NoError(b, r.db.QueryRowContext(b.Context(), query, "us/sandbox", "user-17").Scan(&secret))
}

func (r *race) upd(b testing.TB) {
	query := r.query("UPDATE %soauth_tokens SET used_at = used_at + 1 WHERE environment = %s AND username = %s")
	_, err := r.db.ExecContext(b.Context(), query, "us/sandbox", "user-17")
	require.NoError(b, err)
}

func (r *race) load(b testing.TB) {
	_, err := r.store.Load(b.Context(), user17)
	require.NoError(b, err)
}

func (r *race) sealedLoad(b *testing.B) {
	plain := r.store
	r.store = r.d.sealed(b, r.db, newKeys(b))
	r.save(b)
	r.run(b, r.sel, r.load)
	r.store = plain
	r.save(b)
}

func (r *race) save(b testing.TB) {
	record, err := r.store.Save(b.Context(), user17, token(api.NewSecret("access")))
	require.NoError(b, err)
	r.version = record.Version
}

func (r *race) held() tokens.Lease { return tokens.Lease{Key: user17, Version: r.version, Owner: "a"} }

func (r *race) lease(b testing.TB) {
	_, err := r.store.Lease(b.Context(), r.held(), time.Minute)
	require.NoError(b, err)
}

func (r *race) commit(b testing.TB) {
	r.lease(b)
	record, err := r.store.Commit(b.Context(), r.held(), token(api.NewSecret("access")))
	require.NoError(b, err)
	r.version = record.Version
}

func (r *race) reseal(b testing.TB) {
	r.seals++ // or there would be nothing to write
	access := api.NewSecret(fmt.Sprintf("access-%09d", r.seals))
	require.NoError(b, r.store.Reseal(b.Context(), user17, r.version, access, api.NewSecret("refresh")))
}

// claim takes 100 rows at a time, which are made free again outside of what is
// measured.
func (r *race) claim(b *testing.B) {
	for i := r.due; i < 10_000; i++ {
		key := tokens.Key{Environment: usSandbox, User: fmt.Sprintf("due-%d", i)}
		_, err := r.store.Save(b.Context(), key, token(api.NewSecret("access")))
		require.NoError(b, err)
		r.due++
	}
	due := tokens.Due{Environment: usSandbox, Before: time.Now().AddDate(1, 0, 0), Limit: 100, Owner: "a", TTL: time.Hour}
	var own time.Duration
	for b.Loop() {
		began := time.Now()
		claimed, err := r.store.ClaimDue(b.Context(), due)
		own += time.Since(began)
		require.NoError(b, err)
		require.Len(b, claimed, due.Limit)
		r.d.exec(b, r.db, "UPDATE {tokens} SET lease_owner = '', lease_until = 0 WHERE lease_owner <> ''")
	}
	b.ReportMetric(float64(own.Microseconds())/float64(b.N), "µs/op")
	b.ReportMetric(0, "ns/op")
}
