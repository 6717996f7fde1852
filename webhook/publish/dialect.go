package publish

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/internal/contention"
)

// Dialect is the SQL that the database of a [Ledger] speaks.
type Dialect string

// The dialects of a [Ledger], which finds out by itself which one it is: they are for
// [LedgerSchema].
const (
	PostgreSQL Dialect = "postgresql"
	MySQL      Dialect = "mysql" // and MariaDB
	SQLite     Dialect = "sqlite"
)

// dialect is the SQL of one kind of database.
type dialect struct {
	name   Dialect
	now    string // the database's time in microseconds
	ignore string // ends an INSERT that does nothing if the row with this key exists
	script string // creates the tables
}

var dialects = map[Dialect]dialect{
	PostgreSQL: {
		name: PostgreSQL, now: `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`,
		ignore: `ON CONFLICT (%s) DO NOTHING`,
		script: `
CREATE TABLE IF NOT EXISTS dispensary_ledger (
	id       bytea NOT NULL PRIMARY KEY,
	noted_at bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS dispensary_ledger_noted ON dispensary_ledger (noted_at);
CREATE TABLE IF NOT EXISTS dispensary_ledger_checkpoints (
	name       text COLLATE "C" NOT NULL PRIMARY KEY,
	holder     text COLLATE "C" NOT NULL,
	held_until bigint NOT NULL,
	state      bytea
)`,
	},
	MySQL: {
		name: MySQL, now: `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`,
		ignore: `ON DUPLICATE KEY UPDATE %[1]s = %[1]s`,
		script: `
CREATE TABLE IF NOT EXISTS dispensary_ledger (
	id       binary(32) NOT NULL PRIMARY KEY,
	noted_at bigint NOT NULL,
	KEY dispensary_ledger_noted (noted_at)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS dispensary_ledger_checkpoints (
	name       varbinary(255) NOT NULL PRIMARY KEY,
	holder     varbinary(255) NOT NULL,
	held_until bigint NOT NULL,
	state      mediumblob
) ENGINE = InnoDB`,
	},
	SQLite: {
		name: SQLite, now: `CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)`,
		ignore: `ON CONFLICT (%s) DO NOTHING`,
		script: `
CREATE TABLE IF NOT EXISTS dispensary_ledger (
	id       BLOB NOT NULL PRIMARY KEY,
	noted_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS dispensary_ledger_noted ON dispensary_ledger (noted_at);
CREATE TABLE IF NOT EXISTS dispensary_ledger_checkpoints (
	name       TEXT NOT NULL PRIMARY KEY,
	holder     TEXT NOT NULL,
	held_until INTEGER NOT NULL,
	state      BLOB
)`,
	},
}

// detect asks a database what it is.
func detect(ctx context.Context, db *sql.DB) (dialect, error) {
	var version string
	err := db.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&version)
	if err == nil || contention.Is(err) { // others hold the file: it is not another database
		return dialects[SQLite], err
	}
	if err := db.QueryRowContext(ctx, `SELECT version()`).Scan(&version); err != nil {
		return dialect{}, err
	}
	switch {
	case strings.HasPrefix(version, "PostgreSQL"):
		return dialects[PostgreSQL], nil
	case version != "" && version[0] >= '0' && version[0] <= '9': // "8.4.3", "10.11.19-MariaDB"
		return dialects[MySQL], nil
	}
	return dialect{}, errors.New("the database is neither PostgreSQL nor MySQL, MariaDB or SQLite")
}

// sql writes a statement in the dialect.
func (d dialect) sql(text string) string {
	text = strings.ReplaceAll(text, "{now}", d.now)
	if d.name != PostgreSQL {
		return text
	}
	parts := strings.Split(text, "?")
	for n := 1; n < len(parts); n++ {
		parts[n] = "$" + strconv.Itoa(n) + parts[n]
	}
	return strings.Join(parts, "")
}
