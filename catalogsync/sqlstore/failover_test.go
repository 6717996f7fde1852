package sqlstore_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
)

func TestWritesReplaceReadOnlyConnections(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, "pgx")
	db := d.open(t)
	db.SetMaxIdleConns(3)
	store, ctx := d.store(t, db), t.Context()
	for _, write := range []struct {
		name string
		run  func() error
	}{
		{"begin", func() error { return store.Begin(ctx, catalogstore.Walk{Generation: 1, StartedAt: start}) }},
		{"request", func() error { return store.Request(ctx, start, "pr-1") }},
		{"details", func() error { _, err := store.SaveDetails(ctx, start, catalog.Product{ID: "pr-1"}); return err }},
		{"drop", func() error { return store.Drop(ctx, catalogstore.Request{ProductID: "pr-1", At: start}) }},
	} {
		sqltest.Demote(t, "pgx", db, 3)
		require.NoError(t, write.run(), write.name)
	}
	assert.Zero(t, db.Stats().InUse)
}
