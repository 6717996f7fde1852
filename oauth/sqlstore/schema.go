package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/dispensary-go/dispensary/internal/sqlschema"
)

// steps are the versions of the schema, the first being 1. A step that was
// released is never changed. Each leaves a schema that the release before it can
// work with, and does nothing where it has been taken already.
var steps = map[Dialect][]string{
	PostgreSQL: {`
CREATE TABLE IF NOT EXISTS {tokens} (
	environment   text   COLLATE "C" NOT NULL,
	username      text   COLLATE "C" NOT NULL,
	version       bigint NOT NULL,
	state         text   NOT NULL,
	reason        text   NOT NULL,
	access_token  bytea  NOT NULL,
	refresh_token bytea  NOT NULL,
	details       bytea  NOT NULL,
	due_at        bigint,
	used_at       bigint NOT NULL,
	lease_owner   text   COLLATE "C" NOT NULL,
	lease_until   bigint NOT NULL,
	PRIMARY KEY (environment, username)
) WITH (fillfactor = 80);
CREATE INDEX IF NOT EXISTS {tokens}_due ON {tokens} (environment, due_at) WHERE state = 'active' AND due_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS {flows} (
	environment   text   COLLATE "C" NOT NULL,
	flow          text   COLLATE "C" NOT NULL,
	owner         text   COLLATE "C" NOT NULL,
	claimed_until bigint NOT NULL,
	result        text   NOT NULL,
	PRIMARY KEY (environment, flow)
);
CREATE INDEX IF NOT EXISTS {flows}_end ON {flows} (claimed_until)`, `
ALTER TABLE {tokens} ADD COLUMN IF NOT EXISTS clinic_id text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX IF NOT EXISTS {tokens}_clinic ON {tokens} (environment, clinic_id, username) WHERE clinic_id <> ''`},
	MySQL: {`
CREATE TABLE IF NOT EXISTS {tokens} (
	environment   varbinary(32)  NOT NULL,
	username      varbinary(255) NOT NULL,
	version       bigint         NOT NULL,
	state         varbinary(32)  NOT NULL,
	reason        varbinary(64)  NOT NULL,
	access_token  mediumblob     NOT NULL,
	refresh_token mediumblob     NOT NULL,
	details       mediumblob     NOT NULL,
	due_at        bigint,
	used_at       bigint         NOT NULL,
	lease_owner   varbinary(255) NOT NULL,
	lease_until   bigint         NOT NULL,
	PRIMARY KEY (environment, username),
	KEY {tokens}_due (environment, state, due_at)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS {flows} (
	environment   varbinary(32)  NOT NULL,
	flow          varbinary(255) NOT NULL,
	owner         varbinary(255) NOT NULL,
	claimed_until bigint         NOT NULL,
	result        varbinary(64)  NOT NULL,
	PRIMARY KEY (environment, flow),
	KEY {flows}_end (claimed_until)
) ENGINE = InnoDB`, `
ALTER TABLE {tokens} ADD COLUMN clinic_id varbinary(255) NOT NULL DEFAULT '', ADD KEY {tokens}_clinic (environment, clinic_id, username)`},
	SQLite: {`
CREATE TABLE IF NOT EXISTS {tokens} (
	environment   TEXT    NOT NULL,
	username      TEXT    NOT NULL,
	version       INTEGER NOT NULL,
	state         TEXT    NOT NULL,
	reason        TEXT    NOT NULL,
	access_token  BLOB    NOT NULL,
	refresh_token BLOB    NOT NULL,
	details       BLOB    NOT NULL,
	due_at        INTEGER,
	used_at       INTEGER NOT NULL,
	lease_owner   TEXT    NOT NULL,
	lease_until   INTEGER NOT NULL,
	PRIMARY KEY (environment, username)
) STRICT;
CREATE INDEX IF NOT EXISTS {tokens}_due ON {tokens} (environment, due_at) WHERE state = 'active' AND due_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS {flows} (
	environment   TEXT    NOT NULL,
	flow          TEXT    NOT NULL,
	owner         TEXT    NOT NULL,
	claimed_until INTEGER NOT NULL,
	result        TEXT    NOT NULL,
	PRIMARY KEY (environment, flow)
) STRICT;
CREATE INDEX IF NOT EXISTS {flows}_end ON {flows} (claimed_until)`, `
ALTER TABLE {tokens} ADD COLUMN clinic_id TEXT NOT NULL DEFAULT '';
CREATE INDEX IF NOT EXISTS {tokens}_clinic ON {tokens} (environment, clinic_id, username) WHERE clinic_id <> ''`},
}

// Migrate brings the schema up to date. It may run as often as you like, in any
// number of replicas at once: they take turns. A schema that is up to date is
// only looked at, which needs no right to change it; one that is newer than this
// release is left as it is, so that replicas of two releases get along.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect, config Config) error {
	m, err := migration(dialect, config)
	if err != nil {
		return err
	}
	if version, err := m.Version(ctx, db); err == nil && version >= len(m.Steps) {
		return nil
	}
	if _, err := m.Run(ctx, db); err != nil {
		return failed(ctx, "migrate", err)
	}
	return nil
}

// ErrSchema says that tables are missing, or older than this release needs them.
var ErrSchema = errors.New("sqlstore: tables are missing or outdated: call Migrate")

// CheckSchema looks at the version of the schema, and changes nothing. It fails with
// [ErrSchema], or because the database does not answer.
func CheckSchema(ctx context.Context, db *sql.DB, dialect Dialect, config Config) error {
	m, err := migration(dialect, config)
	if err != nil {
		return err
	}
	if err := db.PingContext(ctx); err != nil {
		return failed(ctx, "check the schema", err)
	}
	if version, err := m.Version(ctx, db); err != nil || version < len(m.Steps) {
		if ctx.Err() != nil {
			return failed(ctx, "check the schema", err)
		}
		return ErrSchema
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
	m := sqlschema.Migration{Dialect: string(dialect), History: config.name("{schema}"), Lock: "dispensary.oauth." + config.prefix()}
	for _, step := range steps[dialect] {
		m.Steps = append(m.Steps, config.name(step))
	}
	return m, nil
}
