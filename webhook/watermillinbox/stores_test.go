package watermillinbox_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox/kvtest"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox/natskv"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox/sqlkv"
)

func TestStoresKeepTheContract(t *testing.T) {
	t.Parallel()
	for _, dialect := range []sqlkv.Dialect{sqlkv.SQLite, sqlkv.PostgreSQL, sqlkv.MySQL} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			kvtest.Run(t, func(t *testing.T) watermillinbox.Store {
				open, _, _ := table(t, dialect)
				return open()
			})
		})
	}
	t.Run("nats", func(t *testing.T) {
		t.Parallel()
		kvtest.Run(t, func(t *testing.T) watermillinbox.Store {
			_, js := natsConn(t)
			return buckets(t, js, unique())
		})
	})
}

func TestStoresAreRefused(t *testing.T) {
	t.Parallel()
	_, db, _ := table(t, sqlkv.SQLite)
	refused := func(field string, err error) {
		t.Helper()
		var argument *api.ArgumentError
		require.ErrorAs(t, err, &argument)
		require.Contains(t, argument.Field, field)
	}
	_, err := sqlkv.New(nil, sqlkv.SQLite, sqlkv.Options{})
	refused("db", err)
	_, err = sqlkv.New(db, "oracle", sqlkv.Options{})
	refused("Dialect", err)
	_, err = sqlkv.New(db, sqlkv.SQLite, sqlkv.Options{Table: "x; DROP TABLE y"})
	refused("Table", err)
	refused("Table", sqlkv.Migrate(t.Context(), db, sqlkv.SQLite, sqlkv.Options{Table: "X"}))
	_, err = natskv.Open(t.Context(), nil, natskv.Config{})
	refused("js", err)
}

// TestMySQLReadsRowsByKey holds that no statement reads the whole table, as some do
// in MariaDB that look as if they named their rows.
func TestMySQLReadsRowsByKey(t *testing.T) {
	t.Parallel()
	open, db, _ := table(t, sqlkv.MySQL)
	db.SetMaxOpenConns(1) // which counts what it reads
	store := open()
	const rows = 1000
	var entries []watermillinbox.Entry
	for n := range rows {
		entries = append(entries, watermillinbox.Entry{Key: fmt.Sprintf("a.%04d", n)})
	}
	revisions, err := store.Create(t.Context(), entries...)
	require.NoError(t, err)
	for n := range entries {
		entries[n].Revision = revisions[n]
	}
	before := rowsRead(t, db)
	_, err = store.Create(t.Context(), watermillinbox.Entry{Key: "b.1"})
	require.NoError(t, err)
	_, err = store.Get(t.Context(), "a.0001", "a.0002")
	require.NoError(t, err)
	_, err = store.Update(t.Context(), entries[3])
	require.NoError(t, err)
	require.NoError(t, store.Delete(t.Context(), entries[4]))
	require.NoError(t, store.Delete(t.Context(), entries[5:8]...))
	for _, err := range store.List(t.Context(), "a.") {
		require.NoError(t, err)
		break
	}
	require.NoError(t, store.Purge(t.Context(), time.Now()))
	assert.Less(t, rowsRead(t, db)-before, rows/10)
}

// rowsRead returns how many rows the connection has read.
func rowsRead(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SHOW SESSION STATUS WHERE Variable_name IN ('Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd_next')")
	require.NoError(t, err)
	for rows.Next() {
		var name string
		var count int
		require.NoError(t, rows.Scan(&name, &count))
		n += count
	}
	require.NoError(t, rows.Close())
	require.NoError(t, rows.Err())
	return n
}

// TestMigrateTogether has replicas start at the same time.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	for _, dialect := range []sqlkv.Dialect{sqlkv.SQLite, sqlkv.PostgreSQL, sqlkv.MySQL} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			_, db, name := table(t, dialect)
			_, err := db.ExecContext(t.Context(), "DROP TABLE "+name)
			require.NoError(t, err)
			options := sqlkv.Options{Table: name}
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() { assert.NoError(t, sqlkv.Migrate(t.Context(), db, dialect, options)) })
			}
			group.Wait()
			store, err := sqlkv.New(db, dialect, options)
			require.NoError(t, err)
			_, err = store.Create(t.Context(), watermillinbox.Entry{Key: "a.b"})
			require.NoError(t, err)
			assert.Contains(t, sqlkv.Schema(dialect, options), "CREATE TABLE IF NOT EXISTS "+name)
		})
	}
	assert.Empty(t, sqlkv.Schema("oracle", sqlkv.Options{}))
}

// TestWhatDoesNotFit holds that an event which is too large for the server is
// refused with a word about why, and none about the event.
func TestWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	_, js := natsConn(t)
	store := buckets(t, js, unique())
	_, err := store.Create(t.Context(), watermillinbox.Entry{Key: "a.b", Value: []byte(strings.Repeat(receivertest.Canary, 100_000))})
	require.ErrorContains(t, err, "max_payload")
	assert.NotContains(t, err.Error(), receivertest.Canary)
	found, err := store.Get(t.Context(), "a.b")
	require.NoError(t, err)
	assert.Empty(t, found)
	assert.Equal(t, "natskv.Store", fmt.Sprintf("%+v", store))
}

// TestForeignBuckets holds that a bucket which would lose events, or not let go of
// them, is refused.
func TestForeignBuckets(t *testing.T) {
	t.Parallel()
	_, js := natsConn(t)
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"DenyDelete": func(c *jetstream.StreamConfig) { c.DenyDelete = true },
		"MaxAge":     func(c *jetstream.StreamConfig) { c.MaxAge = 1e12 },
		"Memory":     func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"History":    func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 },
	} {
		bucket := unique()
		streams(t, js, "KV_"+bucket)
		c := jetstream.StreamConfig{Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, MaxMsgsPerSubject: 1}
		change(&c)
		_, err := patiently(func() (jetstream.Stream, error) { return js.CreateStream(t.Context(), c) })
		require.NoError(t, err, name)
		_, err = natskv.Open(t.Context(), js, natskv.Config{Bucket: bucket})
		require.ErrorContains(t, err, "not made by this package", name)
	}
	_, err := natskv.Open(t.Context(), js, natskv.Config{Bucket: "a.b"})
	require.ErrorContains(t, err, "Bucket")
	_, err = natskv.Open(t.Context(), js, natskv.Config{Replicas: -1})
	require.ErrorContains(t, err, "Replicas")
}
