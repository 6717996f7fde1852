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

// dialect is the SQL dialect of a database.
type dialect string

// SQL dialects. See the README for the tested versions.
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

// clock returns the SQL expression for the database's time in microseconds. SQLite has no
// clock of its own: it runs in this process and uses the clock of this machine, as does every
// other process that has the file open.
func (d dialect) clock() string {
	switch d {
	case postgreSQL:
		return `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	case mySQL:
		return `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	}
	return `:now`
}

// greatest returns the name of the SQL function for the greater of two values.
func (d dialect) greatest() string {
	if d == sqlite {
		return "max"
	}
	return "greatest"
}

// values are the parameters of a statement by name.
type values map[string]any

// statement is SQL with the names of its parameters in the order of the placeholders.
type statement struct {
	text  string
	names []string
}

// compile replaces each :name with a placeholder of the dialect. PostgreSQL numbers its
// placeholders. The other databases need a value for every occurrence. The SQL of this package
// contains no other colons except PostgreSQL's casts.
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

// ignores reports whether the statement is an INSERT IGNORE. For such a statement MySQL sets
// the last inserted ID even if it changed no row.
func (s statement) ignores() bool { return strings.HasPrefix(s.text, insertIgnore) }

// writes reports whether the statement changes rows.
func (s statement) writes() bool { return !strings.HasPrefix(s.text, "SELECT") }
