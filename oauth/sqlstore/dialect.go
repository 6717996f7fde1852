package sqlstore

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqlschema"
)

// dialect is the SQL that a database speaks.
type dialect string

// The dialects. See the README for the versions that they are tested with.
const (
	postgreSQL dialect = "postgresql" // 12 and later
	mySQL      dialect = "mysql"      // MySQL 8.0 and later, MariaDB 10.6 and later
	sqlite     dialect = "sqlite"     // 3.37 and later
)

// detect returns the dialect of a database.
func detect(ctx context.Context, db *sql.DB) (dialect, error) {
	d, err := sqlschema.DialectOf(ctx, db)
	switch {
	case err != nil:
		return "", failed(ctx, "detect the database", err)
	case scripts[dialect(d)] == "":
		return "", &api.ArgumentError{Field: "sqlstore.Open db", Reason: "must be PostgreSQL, MySQL, MariaDB or SQLite"}
	}
	return dialect(d), nil
}

// clock returns the SQL for the database's time in microseconds. SQLite has no
// own clock: it runs in this process, on the clock of this machine, and so does
// every process that has the file open.
func (d dialect) clock() string {
	switch d {
	case postgreSQL:
		return `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	case mySQL:
		return `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	}
	return `:now`
}

// greatest is the name of the function that returns the greater of two.
func (d dialect) greatest() string {
	if d == sqlite {
		return "max"
	}
	return "greatest"
}

// values are the parameters of a statement, by name.
type values map[string]any

// statement is SQL with the names of its parameters in the order of their
// placeholders.
type statement struct {
	text  string
	names []string
}

// compile turns :name into the dialect's placeholders. PostgreSQL counts them, the
// others repeat a value as often as it is named. No SQL of this package holds a
// colon otherwise, but for PostgreSQL's casts.
func (d dialect) compile(query string) statement {
	var s statement
	var b strings.Builder
	for {
		before, after, found := strings.Cut(query, ":")
		b.WriteString(before)
		if !found {
			break
		}
		if strings.HasPrefix(after, ":") {
			b.WriteString("::")
			query = after[1:]
			continue
		}
		end := strings.IndexFunc(after, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' })
		if end < 0 {
			end = len(after)
		}
		b.WriteString(s.placeholder(d, after[:end]))
		query = after[end:]
	}
	s.text = b.String()
	return s
}

// placeholder records a parameter and returns its placeholder.
func (s *statement) placeholder(d dialect, name string) string {
	if d == postgreSQL {
		for i, known := range s.names {
			if known == name {
				return "$" + strconv.Itoa(i+1)
			}
		}
	}
	s.names = append(s.names, name)
	if d == postgreSQL {
		return "$" + strconv.Itoa(len(s.names))
	}
	return "?"
}

// args returns the values in the order of the placeholders.
func (s statement) args(v values) []any {
	args := make([]any, len(s.names))
	for i, name := range s.names {
		args[i] = v[name]
		if name == "now" {
			args[i] = time.Now().UnixMicro()
		}
	}
	return args
}

// ignores reports whether the statement is an INSERT IGNORE: MySQL counts no row if it
// changed none, and has set the last inserted id all the same.
func (s statement) ignores() bool { return strings.HasPrefix(s.text, insertIgnore) }

// writes reports a statement that changes rows.
func (s statement) writes() bool { return !strings.HasPrefix(s.text, "SELECT") }
