package cookbook_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
)

// rowSnapshots keeps the snapshot of the catalog in a row of PostgreSQL:
//
//	CREATE TABLE catalog (id int PRIMARY KEY, version bigint NOT NULL, document bytea NOT NULL)
type rowSnapshots struct{ db *sql.DB }

func (s rowSnapshots) Load(ctx context.Context, known string) (document []byte, version string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT document, version FROM catalog WHERE version::text <> $1`, known).Scan(&document, &version)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, known, nil
	}
	return document, version, err
}

func (s rowSnapshots) Save(ctx context.Context, document []byte) (version string, err error) {
	err = s.db.QueryRowContext(ctx, `INSERT INTO catalog VALUES (1, 1, $1)
		ON CONFLICT (id) DO UPDATE SET document = excluded.document, version = catalog.version + 1 RETURNING version`, document).Scan(&version)
	return version, err
}

// The second replica must find the products of the first one, and the other way round.
func TestCatalogInPostgreSQL(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("pgx", postgrestest.Schema(t))
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), `CREATE TABLE catalog (id int PRIMARY KEY, version bigint NOT NULL, document bytea NOT NULL)`)
	require.NoError(t, err)
	platform := dispensarytest.New(t)
	client := platform.Client(model.User{})
	var replicas [2]*catalogsync.Catalog
	for n := range replicas {
		replicas[n], err = catalogsync.New(catalogsync.Config{Catalog: client.Catalog, Events: client.Events, Snapshots: rowSnapshots{db}})
		require.NoError(t, err)
	}
	_, err = replicas[0].Sync(t.Context())
	require.NoError(t, err)
	platform.Journal.Reset()
	require.NoError(t, replicas[1].Load(t.Context()))
	result, err := replicas[1].Search(catalogsync.SearchOptions{Query: "magn gly"})
	require.NoError(t, err)
	require.NotEmpty(t, result.Hits)
	assert.Empty(t, platform.Journal.Requests(), "the second replica sends no request")
	_, err = replicas[1].Sync(t.Context())
	require.NoError(t, err)
	require.NoError(t, replicas[0].Load(t.Context()))
	assert.True(t, replicas[0].State().Complete.StartedAt.Equal(replicas[1].State().Complete.StartedAt))
}
