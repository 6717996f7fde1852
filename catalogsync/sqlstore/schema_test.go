package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
)

// save stores a catalog with one product.
func save(t *testing.T, store catalogstore.Store) {
	t.Helper()
	w := catalogstore.Walk{Generation: 1, StartedAt: time.Now()}
	require.NoError(t, store.Begin(t.Context(), w))
	listed, err := catalogstore.NewListed(time.Now(), catalog.Product{ID: "a", Name: "Zinc"})
	require.NoError(t, err)
	_, err = store.SavePage(t.Context(), w, []catalogstore.Listed{listed})
	require.NoError(t, err)
}

func count(t *testing.T, store catalogstore.Store) int {
	t.Helper()
	state, err := store.State(t.Context())
	require.NoError(t, err)
	return state.Records[catalogstore.PresencePresent]
}

func TestOpenCreatesTables(t *testing.T) {
	t.Parallel()
	for driver, script := range map[string]string{"sqlite": sqlstore.SQLiteSchema, "pgx": sqlstore.PostgreSQLSchema} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			sqltest.RunSchema(t, sqltest.Store{
				Driver: driver, Script: script,
				Create: func(ctx context.Context, db *sql.DB, _ string) error {
					_, err := sqlstore.Open(ctx, db)
					return err
				},
			})
		})
	}
}

func TestOpenRejectsWrongDatabase(t *testing.T) {
	t.Parallel()
	_, err := sqlstore.Open(t.Context(), nil)
	require.ErrorIs(t, err, api.ErrArgument)
	db := newDatabase(t, "sqlite").open(t)
	require.NoError(t, db.Close())
	_, err = sqlstore.Open(t.Context(), db)
	require.EqualError(t, err, "catalogsync/sqlstore: open: sql: database is closed")
}
