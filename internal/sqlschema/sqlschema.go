// Package sqlschema creates the tables of a store in PostgreSQL, MySQL, MariaDB and SQLite.
package sqlschema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/contention"
)

// Values of [Schema].Dialect. Any other value means MySQL or MariaDB.
const (
	PostgreSQL = "postgresql"
	SQLite     = "sqlite"
)

// DialectOf returns the dialect of a database: [PostgreSQL], [SQLite], "mysql" for MySQL and
// MariaDB, or "" for any other database that has a function version().
func DialectOf(ctx context.Context, db *sql.DB) (dialect string, err error) {
	err = contention.Retry(ctx, func() error {
		var version string
		err := db.QueryRowContext(ctx, `SELECT version()`).Scan(&version)
		switch {
		case err == nil && strings.HasPrefix(version, "PostgreSQL"):
			dialect = PostgreSQL
		case err == nil && version != "" && version[0] >= '0' && version[0] <= '9':
			dialect = "mysql"
		case err == nil:
			dialect = ""
		case !contention.Is(err):
			dialect = SQLite
			err = db.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version)
		}
		return err
	})
	return dialect, err
}

// Schema is the schema of a store.
type Schema struct {
	Dialect string

	// Script creates every missing table, index and function. A semicolon separates statements
	// and occurs nowhere else, except between two $$, which quote the body of a function. A
	// column is in lower case and begins a line, after a tab. A constraint is in upper case.
	Script string
}

// Querier is a database, a connection or a transaction.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// isMissing reports whether err means a missing table.
func isMissing(err error) bool {
	var e *api.SchemaError
	return errors.As(err, &e) && e.Column == ""
}

// Check compares the tables with the schema. It only reads the catalog of the database. The
// error is an [*api.SchemaError] or an error of the database. A missing column takes
// precedence over a missing table.
func (s Schema) Check(ctx context.Context, q Querier) error {
	return contention.Retry(ctx, func() error { return s.check(ctx, q) })
}

// Create runs the script if a table is missing. Otherwise it only reads, so it needs no right
// to create tables and leaves a missing index or function missing. If a table lacks a column,
// Create changes nothing and returns an [*api.SchemaError]. Concurrent calls run one after
// another, across all processes.
func (s Schema) Create(ctx context.Context, db *sql.DB) error {
	return contention.Retry(ctx, func() error {
		if err := s.check(ctx, db); !isMissing(err) {
			return err
		}
		return s.create(ctx, db)
	})
}

var (
	tableForm  = regexp.MustCompile(`(?s)CREATE (?:UNLOGGED )?TABLE IF NOT EXISTS (\S+) \(\n(.*?)\n\)`)
	columnForm = regexp.MustCompile(`(?m)^\t([a-z_]+) `)
)

func (s Schema) check(ctx context.Context, q Querier) error {
	var missing error
	for _, table := range tableForm.FindAllStringSubmatch(s.Script, -1) {
		found, err := s.columns(ctx, q, table[1])
		switch {
		case err != nil:
			return err
		case len(found) > 0:
			for _, column := range columnForm.FindAllStringSubmatch(table[2], -1) {
				if !slices.Contains(found, column[1]) {
					return &api.SchemaError{Table: table[1], Column: column[1]}
				}
			}
		case missing == nil:
			missing = &api.SchemaError{Table: table[1]}
		}
	}
	return missing
}

// columns returns the columns of a table, or none if the table is missing.
func (s Schema) columns(ctx context.Context, q Querier, table string) (columns []string, err error) {
	query := `SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = '%s'`
	switch s.Dialect {
	case PostgreSQL:
		query = `SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('%s') AND attnum > 0 AND NOT attisdropped`
	case SQLite:
		query = `SELECT name FROM pragma_table_info('%s')`
	}
	rows, err := q.QueryContext(ctx, fmt.Sprintf(query, table))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var column string
		if err := rows.Scan(&column); err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	return columns, rows.Err()
}

// create runs the script on one connection and excludes all other processes.
func (s Schema) create(ctx context.Context, db *sql.DB) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, act := range []func() error{
		func() error { return exec(ctx, conn, s.begin()) },
		func() error { return s.run(ctx, conn) },
		func() error { return exec(ctx, conn, `COMMIT`) },
	} {
		if err := act(); err != nil {
			_ = exec(context.WithoutCancel(ctx), conn, `ROLLBACK`) // the pool reuses the connection
			return err
		}
	}
	return nil
}

// run runs the script, unless another process has done so, and verifies the result.
func (s Schema) run(ctx context.Context, conn *sql.Conn) error {
	if err := s.check(ctx, conn); !isMissing(err) {
		return err
	}
	if err := exec(ctx, conn, s.Script); err != nil {
		return err
	}
	return s.check(ctx, conn)
}

// begin returns the SQL that begins an exclusive change of the schema. In PostgreSQL, the
// transaction must be READ COMMITTED, whatever the default, because a stricter one would not
// see the changes made while it waited. MySQL commits each statement by itself and locks the
// table meanwhile.
func (s Schema) begin() string {
	switch s.Dialect {
	case PostgreSQL:
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(s.Script))
		return fmt.Sprintf(`BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(%d)`, hash.Sum32())
	case SQLite:
		return `BEGIN IMMEDIATE`
	}
	return `BEGIN`
}

// exec runs statements without parameters one by one, because some drivers accept only one.
func exec(ctx context.Context, conn *sql.Conn, script string) error {
	for one := range statements(script) {
		if _, err := conn.ExecContext(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// statements returns the statements of a script.
func statements(script string) iter.Seq[string] {
	return func(yield func(string) bool) {
		one := ""
		for part := range strings.SplitSeq(script, ";") {
			if one += part; strings.Count(one, "$$")%2 == 1 {
				one += ";"
				continue
			}
			if one = strings.TrimSpace(one); one != "" && !yield(one) {
				return
			}
			one = ""
		}
	}
}
