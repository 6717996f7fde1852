package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/dispensary-go/dispensary/internal/contention"
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
CREATE INDEX IF NOT EXISTS {tokens}_due ON {tokens} (environment, due_at) WHERE state = 'active' AND due_at IS NOT NULL`, `
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
CREATE INDEX IF NOT EXISTS {tokens}_due ON {tokens} (environment, due_at) WHERE state = 'active' AND due_at IS NOT NULL`, `
ALTER TABLE {tokens} ADD COLUMN clinic_id TEXT NOT NULL DEFAULT '';
CREATE INDEX IF NOT EXISTS {tokens}_clinic ON {tokens} (environment, clinic_id, username) WHERE clinic_id <> ''`},
}

// history is the table of the steps that were taken.
const history = `CREATE TABLE IF NOT EXISTS {schema} (version integer NOT NULL PRIMARY KEY, applied_at varchar(32) NOT NULL)`

// Migrate brings the schema up to date. It may run as often as you like, in any
// number of replicas at once: they take turns. A schema that is up to date is
// only looked at, which needs no right to change it; one that is newer than this
// release is left as it is, so that replicas of two releases get along.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect, config Config) error {
	m, err := newMigration(dialect, config)
	if err != nil {
		return err
	}
	if version, err := m.version(ctx, db); err == nil && version >= len(m.steps) {
		return nil
	}
	if err := contention.Retry(ctx, func() error { return m.run(ctx, db) }); err != nil {
		return failed(ctx, "migrate", err)
	}
	return nil
}

// ErrSchema says that tables are missing, or older than this release needs them.
var ErrSchema = errors.New("sqlstore: tables are missing or outdated: call Migrate")

// CheckSchema looks at the version of the schema, and changes nothing. It fails with
// [ErrSchema], or because the database does not answer.
func CheckSchema(ctx context.Context, db *sql.DB, dialect Dialect, config Config) error {
	m, err := newMigration(dialect, config)
	if err != nil {
		return err
	}
	if err := db.PingContext(ctx); err != nil {
		return failed(ctx, "check the schema", err)
	}
	if version, err := m.version(ctx, db); err != nil || version < len(m.steps) {
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
	m, err := newMigration(dialect, config)
	if err != nil {
		return "", err
	}
	statements := []string{config.name(history)}
	for i, step := range m.steps {
		statements = append(statements, strings.TrimSpace(step), m.note(i+1))
	}
	return strings.Join(statements, ";\n") + ";\n", nil
}

// migration is the schema of one dialect with the names of its tables.
type migration struct {
	dialect Dialect
	config  Config
	steps   []string
}

func newMigration(dialect Dialect, config Config) (*migration, error) {
	if err := config.validate(dialect); err != nil {
		return nil, err
	}
	m := &migration{dialect: dialect, config: config}
	for _, step := range steps[dialect] {
		m.steps = append(m.steps, config.name(step))
	}
	return m, nil
}

// querier is a database, a connection of it, or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// version returns the last step that was taken.
func (m *migration) version(ctx context.Context, q querier) (int, error) {
	var version int
	err := q.QueryRowContext(ctx, m.config.name(`SELECT COALESCE(MAX(version), 0) FROM {schema}`)).Scan(&version)
	return version, err
}

// run takes the missing steps on one connection, while no one else does.
func (m *migration) run(ctx context.Context, db *sql.DB) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	begin, end, undo := m.lock()
	for _, act := range []func(context.Context, querier) error{begin, m.take, end} {
		if err := act(ctx, conn); err != nil {
			_ = exec(context.WithoutCancel(ctx), conn, undo) // the connection goes back to the pool
			return err
		}
	}
	return nil
}

// lock returns how to begin, end and undo an exclusive change of the schema. PostgreSQL and SQLite change a
// schema in a transaction; MySQL cannot, which is why every step may be repeated.
func (m *migration) lock() (begin, end func(context.Context, querier) error, undo string) {
	script := func(script string) func(context.Context, querier) error {
		return func(ctx context.Context, q querier) error { return exec(ctx, q, script) }
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte("dispensary.oauth." + m.config.prefix()))
	switch m.dialect {
	case PostgreSQL:
		return script(fmt.Sprintf(`BEGIN; SELECT pg_advisory_xact_lock(%d)`, hash.Sum32())), script(`COMMIT`), `ROLLBACK`
	case SQLite:
		return script(`BEGIN IMMEDIATE`), script(`COMMIT`), `ROLLBACK`
	}
	name := fmt.Sprintf(`CONCAT('dispensary.', MD5(DATABASE()), '.%d')`, hash.Sum32())
	release := `DO RELEASE_LOCK(` + name + `)`
	return func(ctx context.Context, q querier) error {
		var got sql.NullInt64
		err := q.QueryRowContext(ctx, `SELECT GET_LOCK(`+name+`, 60)`).Scan(&got)
		if err == nil && got.Int64 != 1 {
			err = errors.New("another migration did not end within a minute, or no database is selected")
		}
		return err
	}, script(release), release
}

func (m *migration) take(ctx context.Context, q querier) error {
	if err := exec(ctx, q, m.config.name(history)); err != nil {
		return err
	}
	taken, err := m.version(ctx, q)
	if err != nil {
		return err
	}
	for i := taken; i < len(m.steps); i++ {
		if err := exec(ctx, q, m.steps[i]+";"+m.note(i+1)); err != nil {
			return err
		}
	}
	return nil
}

// note records that a step was taken, by the clock of the database.
func (m *migration) note(version int) string {
	return fmt.Sprintf(m.config.name(`INSERT INTO {schema} (version, applied_at) VALUES (%d, CURRENT_TIMESTAMP)`), version)
}

// exec runs statements one by one: not every driver takes several at once. None
// of them has parameters or holds a semicolon. A column that is there has been added
// before; MySQL and SQLite cannot say IF NOT EXISTS of one.
func exec(ctx context.Context, q querier, script string) error {
	for _, one := range strings.Split(script, ";") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		if _, err := q.ExecContext(ctx, one); err != nil && !strings.Contains(strings.ToLower(err.Error()), "duplicate column name") {
			return err
		}
	}
	return nil
}
