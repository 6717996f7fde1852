package sqlkv

import (
	"strconv"
	"strings"
)

// Dialect is the SQL that a database speaks.
type Dialect string

// The dialects that the package speaks.
const (
	PostgreSQL Dialect = "postgresql" // 12 and later
	MySQL      Dialect = "mysql"      // MySQL 8.0 and later, MariaDB 10.6 and later
	SQLite     Dialect = "sqlite"     // 3.37 and later
)

// schemas make the table and its index, and do nothing where they are.
var schemas = map[Dialect][]string{
	PostgreSQL: {`
CREATE TABLE IF NOT EXISTS {table} (
	k        text COLLATE "C" NOT NULL PRIMARY KEY,
	value    bytea  NOT NULL,
	revision bigint NOT NULL,
	past_at  bigint
)`, `CREATE INDEX IF NOT EXISTS {table}_past ON {table} (past_at) WHERE past_at IS NOT NULL`},
	MySQL: {`
CREATE TABLE IF NOT EXISTS {table} (
	k        varbinary(255) NOT NULL PRIMARY KEY,
	value    longblob NOT NULL,
	revision bigint   NOT NULL,
	past_at  bigint,
	KEY {table}_past (past_at)
) ENGINE = InnoDB`},
	SQLite: {`
CREATE TABLE IF NOT EXISTS {table} (
	k        TEXT    NOT NULL PRIMARY KEY,
	value    BLOB    NOT NULL,
	revision INTEGER NOT NULL,
	past_at  INTEGER
) STRICT`, `CREATE INDEX IF NOT EXISTS {table}_past ON {table} (past_at) WHERE past_at IS NOT NULL`},
}

// clock returns the SQL for the database's time in microseconds. That of SQLite is
// this machine's, and exact to the millisecond.
func (d Dialect) clock() string {
	switch d {
	case PostgreSQL:
		return `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
	case MySQL:
		return `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
	}
	return `CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)`
}

// skip makes an INSERT leave rows alone whose keys are there.
func (d Dialect) skip() string {
	if d == MySQL {
		return ` ON DUPLICATE KEY UPDATE k = k`
	}
	return ` ON CONFLICT (k) DO NOTHING`
}

// places turns question marks into what the database has for them.
func (d Dialect) places(query string) string {
	if d != PostgreSQL {
		return query
	}
	var b strings.Builder
	for n, part := range strings.Split(query, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
	}
	return b.String()
}

// repeat returns n times text, with commas.
func repeat(text string, n int) string {
	return strings.TrimSuffix(strings.Repeat(text+", ", n), ", ")
}
