// Package sqlschema keeps the tables of a store at the version that a release needs, in
// PostgreSQL, MySQL, MariaDB and SQLite.
package sqlschema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/contention"
)

// Values of [Migration].Dialect; any other one is MySQL or MariaDB.
const (
	PostgreSQL = "postgresql"
	SQLite     = "sqlite"
)

// Migration is the way to a schema.
type Migration struct {
	Dialect string

	// Steps are the versions of the schema, the first being 1. In MySQL, which changes no
	// schema in a transaction, each does nothing where it has been taken already.
	Steps []string

	// History is the table of the steps that were taken.
	History string

	// Lock is the name of what one migration at a time holds.
	Lock string
}

// Querier is a database, a connection of it, or a transaction.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Version returns the last step that was taken, which may be one that this release does not
// know. Without the tables it is an error.
func (m Migration) Version(ctx context.Context, q Querier) (version int, err error) {
	err = q.QueryRowContext(ctx, `SELECT COALESCE(MAX(version), 0) FROM `+m.History).Scan(&version)
	return version, err
}

// Run takes the missing steps, while no other process does, and returns the version that the
// schema has then. A schema that is newer stays as it is.
func (m Migration) Run(ctx context.Context, db *sql.DB) (version int, err error) {
	err = contention.Retry(ctx, func() (err error) {
		version, err = m.run(ctx, db)
		return err
	})
	return version, err
}

// Script returns the SQL of the whole schema, its version included.
func (m Migration) Script() string {
	statements := []string{m.history()}
	for i, step := range m.Steps {
		statements = append(statements, strings.TrimSpace(step), m.note(i+1))
	}
	return strings.Join(statements, ";\n") + ";\n"
}

// run takes the missing steps on one connection.
func (m Migration) run(ctx context.Context, db *sql.DB) (version int, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	begin, end, undo := m.lock()
	take := func(ctx context.Context, q Querier) (err error) {
		version, err = m.take(ctx, q)
		return err
	}
	for _, act := range []func(context.Context, Querier) error{begin, take, end} {
		if err := act(ctx, conn); err != nil {
			_ = exec(context.WithoutCancel(ctx), conn, undo) // the connection goes back to the pool
			return 0, err
		}
	}
	return version, nil
}

// lock returns how to begin, end and undo an exclusive change of the schema. PostgreSQL and
// SQLite change a schema in a transaction; MySQL cannot. One of PostgreSQL that is stricter than
// READ COMMITTED, as it may be by default, would not see what was changed while it waited.
func (m Migration) lock() (begin, end func(context.Context, Querier) error, undo string) {
	script := func(script string) func(context.Context, Querier) error {
		return func(ctx context.Context, q Querier) error { return exec(ctx, q, script) }
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(m.Lock))
	switch m.Dialect {
	case PostgreSQL:
		return script(fmt.Sprintf(`BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(%d)`, hash.Sum32())), script(`COMMIT`), `ROLLBACK`
	case SQLite:
		return script(`BEGIN IMMEDIATE`), script(`COMMIT`), `ROLLBACK`
	}
	name := fmt.Sprintf(`CONCAT('dispensary.', MD5(DATABASE()), '.%d')`, hash.Sum32())
	release := `DO RELEASE_LOCK(` + name + `)`
	return func(ctx context.Context, q Querier) error {
		var got sql.NullInt64
		err := q.QueryRowContext(ctx, `SELECT GET_LOCK(`+name+`, 60)`).Scan(&got)
		if err == nil && got.Int64 != 1 {
			err = errors.New("another migration did not end within a minute, or no database is selected")
		}
		return err
	}, script(release), release
}

func (m Migration) take(ctx context.Context, q Querier) (version int, err error) {
	if err := exec(ctx, q, m.history()); err != nil {
		return 0, err
	}
	taken, err := m.Version(ctx, q)
	if err != nil {
		return 0, err
	}
	for i := taken; i < len(m.Steps); i++ {
		if err := exec(ctx, q, m.Steps[i]+";"+m.note(i+1)); err != nil {
			return 0, err
		}
	}
	return max(taken, len(m.Steps)), nil
}

func (m Migration) history() string {
	return `CREATE TABLE IF NOT EXISTS ` + m.History + ` (version integer NOT NULL PRIMARY KEY, applied_at varchar(32) NOT NULL)`
}

// note records that a step was taken, by the clock of the database.
func (m Migration) note(version int) string {
	return fmt.Sprintf(`INSERT INTO %s (version, applied_at) VALUES (%d, CURRENT_TIMESTAMP)`, m.History, version)
}

// exec runs statements one by one: not every driver takes several at once. None
// of them has parameters or holds a semicolon. A column that is there has been added
// before; MySQL and SQLite cannot say IF NOT EXISTS of one.
func exec(ctx context.Context, q Querier, script string) error {
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

var prefixForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

// CheckPrefix refuses what cannot begin the names of tables. The error is an
// [*api.ArgumentError] for the field sqlstore.Config.TablePrefix.
func CheckPrefix(prefix string) error {
	if prefixForm.MatchString(prefix) {
		return nil
	}
	return &api.ArgumentError{
		Field: "sqlstore.Config.TablePrefix", Reason: "must be lower case letters, digits and underscores, 40 at most, a letter first",
	}
}
