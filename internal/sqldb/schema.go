package sqldb

import (
	"cmp"
	"context"
	"crypto/md5"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"regexp"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/api"
)

// Values of [Schema].Dialect. Any other value means MySQL or MariaDB.
const (
	PostgreSQL = "postgresql"
	SQLite     = "sqlite"
)

// DialectOf returns the dialect of a database: [PostgreSQL], [SQLite], "mysql" for MySQL and
// MariaDB, or "" for any other database that has a function version().
func DialectOf(ctx context.Context, db *sql.DB) (dialect string, err error) {
	err = Retry(ctx, func() error {
		var version string
		err := db.QueryRowContext(ctx, `SELECT version()`).Scan(&version)
		switch {
		case err == nil && strings.HasPrefix(version, "PostgreSQL"):
			dialect = PostgreSQL
		case err == nil && version != "" && version[0] >= '0' && version[0] <= '9':
			dialect = "mysql"
		case err == nil:
			dialect = ""
		case !IsContention(err):
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

	// Script creates or replaces every table, index, function and trigger. It can run again. A
	// semicolon separates statements and occurs nowhere else, except between two $$, which quote
	// the body of a function.
	//
	// It first creates a table with the columns id, version and oldest, and last stores its only
	// row, with REPLACE INTO or INSERT INTO name (id, version, oldest) VALUES (1, version, oldest).
	// version is the version of the schema. oldest is the oldest version whose release may still
	// use the schema.
	Script string

	// Migrate names the function that runs the script, for errors.
	Migrate string
}

// Querier is a database, a connection or a transaction.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Check compares the version of the database with the script and, if they are equal, the functions
// and triggers. It only reads. The error is an [*api.SchemaError] or an error of the database.
func (s Schema) Check(ctx context.Context, q Querier) error {
	return Retry(ctx, func() error { return s.check(ctx, q) })
}

// Create runs the script if the database has no version or an older one, or if a function or
// trigger is missing or changed. Otherwise it only reads, so it needs no right to create tables. If
// another program has created a table of the script, or a newer release no longer admits this one,
// Create changes nothing and returns an [*api.SchemaError]. Concurrent calls run one after another,
// across all processes.
func (s Schema) Create(ctx context.Context, db *sql.DB) error {
	return Retry(ctx, func() error {
		outdated := s.check(ctx, db)
		if !isOutdated(outdated) {
			return outdated
		}
		if err := s.create(ctx, db); err != nil {
			return fmt.Errorf("%w: %w", outdated, err)
		}
		return nil
	})
}

// isOutdated reports whether err means that the script must run.
func isOutdated(err error) bool {
	var e *api.SchemaError
	return errors.As(err, &e) && (e.Found < e.Want || e.Changed) && e.Oldest <= e.Want
}

var (
	tableForm = regexp.MustCompile(`CREATE (?:UNLOGGED )?TABLE IF NOT EXISTS (\S+) \(`)
	rowForm   = regexp.MustCompile(`(?:INSERT|REPLACE) INTO (\S+) \(id, version, oldest\) VALUES \(1, (\d+), (\d+)\)`)
)

func (s Schema) check(ctx context.Context, q Querier) error {
	row := rowForm.FindStringSubmatch(s.Script)
	e := &api.SchemaError{Table: row[1], Migrate: s.Migrate}
	e.Want, _ = strconv.Atoi(row[2]) // digits
	there, err := s.exists(ctx, q, row[1])
	if err != nil {
		return err
	}
	if !there {
		return s.checkForeign(ctx, q, e)
	}
	stored, err := s.ints(ctx, q, "SELECT coalesce(max(version), 0), coalesce(max(oldest), 0) FROM "+row[1])
	if err != nil {
		return err
	}
	if e.Found, e.Oldest = stored[0], stored[1]; e.Found < e.Want || e.Oldest > e.Want {
		return e
	}
	if e.Found == e.Want { // a newer release may have changed them
		e.Changed, err = s.isChanged(ctx, q)
	}
	if err != nil || !e.Changed {
		return err
	}
	return e
}

var (
	functionForm = regexp.MustCompile(`(?s)CREATE OR REPLACE FUNCTION (\S+?)\(.*?AS \$\$(.*?)\$\$`)
	triggerForm  = regexp.MustCompile(`(?s)CREATE OR REPLACE TRIGGER (\S+) .*? ON (\S+) FOR EACH`)
)

// isChanged reports whether a function or trigger of the script is missing or different. Only
// scripts for PostgreSQL have some.
func (s Schema) isChanged(ctx context.Context, q Querier) (bool, error) {
	functions, triggers := functionForm.FindAllStringSubmatch(s.Script, -1), triggerForm.FindAllStringSubmatch(s.Script, -1)
	if len(functions) == 0 {
		return false, nil
	}
	query := "SELECT (SELECT count(*) FROM pg_proc p WHERE false"
	for _, f := range functions {
		query += fmt.Sprintf(" OR p.oid = to_regproc('%s') AND md5(p.prosrc) = '%x'", f[1], md5.Sum([]byte(f[2])))
	}
	query += "), (SELECT count(*) FROM pg_trigger t WHERE t.tgenabled <> 'D' AND (false"
	for _, t := range triggers {
		query += fmt.Sprintf(" OR t.tgname = '%s' AND t.tgrelid = to_regclass('%s')", t[1], t[2])
	}
	found, err := s.ints(ctx, q, query+"))")
	return found != [2]int{len(functions), len(triggers)}, err
}

// checkForeign returns missing, the error of a missing schema, unless another program has created
// a table of the script. A process that runs the script creates the table with the version first.
func (s Schema) checkForeign(ctx context.Context, q Querier, missing *api.SchemaError) error {
	for _, table := range tableForm.FindAllStringSubmatch(s.Script, -1)[1:] {
		found, err := s.exists(ctx, q, table[1])
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if began, err := s.exists(ctx, q, missing.Table); err != nil || !began {
			return cmp.Or(err, error(&api.SchemaError{Table: table[1]}))
		}
		break
	}
	return missing
}

// exists reports whether a table exists.
func (s Schema) exists(ctx context.Context, q Querier, table string) (bool, error) {
	query := "SELECT count(*), 0 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '%s'"
	switch s.Dialect {
	case PostgreSQL:
		query = "SELECT count(*), 0 FROM pg_class WHERE oid = to_regclass('%s')" // reading pg_class refreshes the cache of names
	case SQLite:
		query = "SELECT count(*), 0 FROM sqlite_schema WHERE name = '%s'"
	}
	found, err := s.ints(ctx, q, fmt.Sprintf(query, table))
	return found[0] > 0, err
}

// ints returns the two numbers in the result of a query.
func (s Schema) ints(ctx context.Context, q Querier, query string) (numbers [2]int, err error) {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return numbers, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := rows.Scan(&numbers[0], &numbers[1]); err != nil {
			return numbers, err
		}
	}
	return numbers, rows.Err()
}

// create runs the script on one connection and excludes all other processes.
func (s Schema) create(ctx context.Context, db *sql.DB) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	begin, end := s.turn()
	if err = exec(ctx, conn, begin); err == nil {
		if err = s.check(ctx, conn); isOutdated(err) { // another process may have run the script
			err = exec(ctx, conn, s.Script)
		}
	}
	if err == nil {
		err = exec(ctx, conn, "COMMIT"+end)
	}
	if err != nil {
		_ = exec(context.WithoutCancel(ctx), conn, "ROLLBACK"+end) // the pool reuses the connection
	}
	return err
}

// turn returns the SQL that begins and ends an exclusive change of the schema. In PostgreSQL, the
// transaction must be READ COMMITTED, whatever the default, because a stricter one would not
// see the changes made while it waited. It waits for locks only briefly, because all writers of a
// table queue behind it, and Create retries. MySQL commits each statement by itself, so a lock of the
// session surrounds all of them.
func (s Schema) turn() (begin, end string) {
	table := rowForm.FindStringSubmatch(s.Script)[1] // the same in all releases
	switch s.Dialect {
	case PostgreSQL:
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(table))
		return fmt.Sprintf(`BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(%d); SET LOCAL lock_timeout = 100`, hash.Sum32()), ""
	case SQLite:
		return `BEGIN IMMEDIATE`, ""
	}
	return "DO GET_LOCK('" + table + "', 60); BEGIN", "; DO RELEASE_LOCK('" + table + "')"
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
