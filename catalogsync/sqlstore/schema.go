package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/internal/sqlschema"
)

// steps are the versions of the schema, the first being 1. A step that was released is
// never changed.
//
// What changes with every walk is in a row of its own, which is small: a page that has
// nothing new writes no document. The number of a product is its first revision, so that
// products lie in the order in which they came, in which the list shows them again.
var steps = map[Dialect][]string{
	PostgreSQL: {`
CREATE TABLE {products} (
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
CREATE TABLE {documents} (
	number     bigint NOT NULL PRIMARY KEY,
	attributes json,
	document   json   NOT NULL
);
CREATE TABLE {requests} (
	product_id   text   COLLATE "C" NOT NULL PRIMARY KEY,
	requested_at bigint NOT NULL
);
CREATE INDEX {requests}_oldest ON {requests} (requested_at, product_id);
CREATE TABLE {state} (
	revision   bigint NOT NULL,
	generation bigint NOT NULL,
	newest     text   NOT NULL,
	complete   text   NOT NULL
);
INSERT INTO {state} (revision, generation, newest, complete) VALUES (0, 0, '', '')`},
	SQLite: {`
CREATE TABLE {products} (
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
CREATE TABLE {documents} (
	number     INTEGER NOT NULL PRIMARY KEY,
	attributes TEXT,
	document   TEXT    NOT NULL
) STRICT;
CREATE TABLE {requests} (
	product_id   TEXT    NOT NULL PRIMARY KEY,
	requested_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX {requests}_oldest ON {requests} (requested_at, product_id);
CREATE TABLE {state} (
	revision   INTEGER NOT NULL,
	generation INTEGER NOT NULL,
	newest     TEXT    NOT NULL,
	complete   TEXT    NOT NULL
) STRICT;
INSERT INTO {state} (revision, generation, newest, complete) VALUES (0, 0, '', '')`},
}

// Migrate makes the tables, or brings them up to date. It may run as often as you like, in
// any number of processes at once: they take turns, and each does everything or nothing. A
// schema that is up to date is only looked at, which needs no right to change it. One that
// is newer than this release is left as it is: [ErrNewerSchema].
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect, config Config) error {
	m, err := migration(dialect, config)
	if err != nil {
		return err
	}
	version, err := m.Version(ctx, db)
	if err != nil || version < len(m.Steps) {
		version, err = m.Run(ctx, db)
	}
	if err == nil && version > len(m.Steps) {
		err = ErrNewerSchema
	}
	if err != nil {
		return failed(ctx, "migrate", err)
	}
	return nil
}

// CheckSchema looks at the version of the schema, and changes nothing. It fails with
// [ErrSchema] or [ErrNewerSchema], or because the database does not answer.
func CheckSchema(ctx context.Context, db *sql.DB, dialect Dialect, config Config) error {
	m, err := migration(dialect, config)
	if err != nil {
		return err
	}
	if err := db.PingContext(ctx); err != nil {
		return failed(ctx, "check the schema", err)
	}
	switch version, err := m.Version(ctx, db); {
	case ctx.Err() != nil:
		return failed(ctx, "check the schema", err)
	case err != nil, version < len(m.Steps):
		return ErrSchema
	case version > len(m.Steps):
		return ErrNewerSchema
	}
	return nil
}

// Schema returns the SQL of the whole schema, its version included, for programs that
// apply it with another tool than [Migrate], to a database without the tables. Migrate,
// which may be run on these tables as on any other, makes the changes of later versions.
func Schema(dialect Dialect, config Config) (string, error) {
	m, err := migration(dialect, config)
	if err != nil {
		return "", err
	}
	return m.Script(), nil
}

func migration(dialect Dialect, config Config) (sqlschema.Migration, error) {
	if err := config.validate(dialect); err != nil {
		return sqlschema.Migration{}, err
	}
	m := sqlschema.Migration{Dialect: string(dialect), History: config.name("{schema}"), Lock: config.prefix() + "schema"}
	for _, step := range steps[dialect] {
		m.Steps = append(m.Steps, config.name(step))
	}
	return m, nil
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
