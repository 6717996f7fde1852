package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/internal/sqlschema"
)

// scripts create the tables.
//
// Each walk changes the small row of a product. A page without changes writes no document. The
// number of a product is its first revision, so products lie in the order in which they came, and
// the list shows them in that order again.
var scripts = map[Dialect]string{
	PostgreSQL: `
CREATE TABLE IF NOT EXISTS dispensary_catalog_products (
	number     bigint NOT NULL PRIMARY KEY,
	id         text   COLLATE "C" NOT NULL UNIQUE,
	revision   bigint NOT NULL UNIQUE,
	presence   text   NOT NULL,
	generation bigint NOT NULL,
	read_at    bigint NOT NULL,
	details_at bigint,
	hash       text   NOT NULL,
	listed     text   NOT NULL
) WITH (fillfactor = 80);
CREATE TABLE IF NOT EXISTS dispensary_catalog_documents (
	number     bigint NOT NULL PRIMARY KEY,
	attributes json,
	document   json   NOT NULL
);
CREATE TABLE IF NOT EXISTS dispensary_catalog_requests (
	product_id   text   COLLATE "C" NOT NULL PRIMARY KEY,
	requested_at bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS dispensary_catalog_requests_oldest ON dispensary_catalog_requests (requested_at, product_id);
CREATE TABLE IF NOT EXISTS dispensary_catalog_state (
	revision bigint NOT NULL,
	newest   text   NOT NULL,
	complete text   NOT NULL
);
INSERT INTO dispensary_catalog_state (revision, newest, complete) SELECT 0, '', '' WHERE NOT EXISTS (SELECT 1 FROM dispensary_catalog_state)`,
	SQLite: `
CREATE TABLE IF NOT EXISTS dispensary_catalog_products (
	number     INTEGER NOT NULL PRIMARY KEY,
	id         TEXT    NOT NULL UNIQUE,
	revision   INTEGER NOT NULL UNIQUE,
	presence   TEXT    NOT NULL,
	generation INTEGER NOT NULL,
	read_at    INTEGER NOT NULL,
	details_at INTEGER,
	hash       TEXT    NOT NULL,
	listed     TEXT    NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS dispensary_catalog_documents (
	number     INTEGER NOT NULL PRIMARY KEY,
	attributes TEXT,
	document   TEXT    NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS dispensary_catalog_requests (
	product_id   TEXT    NOT NULL PRIMARY KEY,
	requested_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS dispensary_catalog_requests_oldest ON dispensary_catalog_requests (requested_at, product_id);
CREATE TABLE IF NOT EXISTS dispensary_catalog_state (
	revision INTEGER NOT NULL,
	newest   TEXT    NOT NULL,
	complete TEXT    NOT NULL
) STRICT;
INSERT INTO dispensary_catalog_state (revision, newest, complete) SELECT 0, '', '' WHERE NOT EXISTS (SELECT 1 FROM dispensary_catalog_state)`,
}

// SchemaError reports a difference between a database and the tables of a [Store]. Table is the
// first wrong table. Column is its missing column, or empty if the whole table is missing.
type SchemaError = sqlschema.Error

// Migrate creates the missing tables. If none is missing, it only reads, so a role without the
// right to create tables can call it at every start. Processes may call it at the same
// time. It fails with a [*SchemaError] and changes nothing if a table lacks a column, because
// another program or release created it.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect) error {
	schema, err := dialect.schema()
	if err != nil {
		return err
	}
	if err := schema.Create(ctx, db); err != nil {
		return failed(ctx, "migrate", err)
	}
	return nil
}

// CheckSchema fails with a [*SchemaError] if a table or a column is missing, or with the error
// of the database. It changes nothing.
func CheckSchema(ctx context.Context, db *sql.DB, dialect Dialect) error {
	schema, err := dialect.schema()
	if err != nil {
		return err
	}
	if err := schema.Check(ctx, db); err != nil {
		return failed(ctx, "check the schema", err)
	}
	return nil
}

// Schema returns the SQL that [Migrate] runs, for a program that applies it with another tool.
func Schema(dialect Dialect) (string, error) {
	schema, err := dialect.schema()
	return schema.Script, err
}

func (d Dialect) schema() (sqlschema.Schema, error) {
	return sqlschema.Schema{Dialect: string(d), Script: scripts[d]}, d.validate()
}

// querier is a database or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// failed names the operation. The end of the caller's ctx comes back from some drivers as
// another error.
func failed(ctx context.Context, op string, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("catalogsync/sqlstore: %s: %w: %w", op, ended, err)
	}
	return fmt.Errorf("catalogsync/sqlstore: %s: %w", op, err)
}
