package sqlstore_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
)

// demote makes n connections of the pool read-only, as those are that were opened to a
// server before it became the primary.
func demote(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	var held []*sql.Conn
	for range n {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		_, err = conn.ExecContext(t.Context(), "SET default_transaction_read_only = on")
		require.NoError(t, err)
		held = append(held, conn)
	}
	for _, conn := range held {
		require.NoError(t, conn.Close())
	}
}

func TestWritesReplaceReadOnlyConnections(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, sqlstore.PostgreSQL)
	db := d.migrated(t)
	db.SetMaxIdleConns(3)
	store, ctx := d.store(t, db), t.Context()
	for _, write := range []struct {
		name string
		run  func() error
	}{
		{"begin", func() error { return store.Begin(ctx, catalogsync.Walk{Generation: 1, StartedAt: start}) }},
		{"request", func() error { return store.Request(ctx, start, "pr-1") }},
		{"details", func() error { _, err := store.SaveDetails(ctx, start, catalog.Product{ID: "pr-1"}); return err }},
		{"drop", func() error { return store.Drop(ctx, catalogsync.Request{ProductID: "pr-1", At: start}) }},
	} {
		demote(t, db, 3)
		require.NoError(t, write.run(), write.name)
	}
	assert.Zero(t, db.Stats().InUse)
}
