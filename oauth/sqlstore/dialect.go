package sqlstore

import (
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Dialect is the SQL that a database speaks.
type Dialect string

// The dialects that the package speaks. See the README for the versions that it
// is tested with.
const (
	PostgreSQL Dialect = "postgresql" // 12 and later
	MySQL      Dialect = "mysql"      // MySQL 8.0 and later, MariaDB 10.6 and later
	SQLite     Dialect = "sqlite"     // 3.37 and later
)

func (d Dialect) validate() error {
	if d != PostgreSQL && d != MySQL && d != SQLite {
		return &api.ArgumentError{Field: "sqlstore.Dialect", Reason: "is none of PostgreSQL, MySQL and SQLite"}
	}
	return nil
}

// clock returns the SQL for the database's time in microseconds. SQLite has no
// own clock: it runs in this process, on the clock of this machine, and so does
// every process that has the file open.
func (d Dialect) clock() string {
	switch d {
	case PostgreSQL:
		return `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	case MySQL:
		return `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	}
	return `:now`
}

// greatest is the name of the function that returns the greater of two.
func (d Dialect) greatest() string {
	if d == SQLite {
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
func (d Dialect) compile(query string) statement {
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
func (s *statement) placeholder(d Dialect, name string) string {
	if d == PostgreSQL {
		for i, known := range s.names {
			if known == name {
				return "$" + strconv.Itoa(i+1)
			}
		}
	}
	s.names = append(s.names, name)
	if d == PostgreSQL {
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
