package sqlinbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// The states of a row. Below dead, an event is alive. Each takes one byte in the
// row, which 0 and 1 would not: a row that grew would split its page, and leave
// both halves half empty for a month. Done is the last one, so that the index by
// state grows at its end, where pages are filled up.
const (
	stateInLine  = 2 // an older event of the ordering key comes first
	stateReady   = 3 // to be handled at due_at
	stateRunning = 4 // being handled; abandoned at due_at
	stateDead    = 5 // a dead letter since due_at
	stateDone    = 6 // handled, skipped or discarded, at due_at
)

// migrations are the steps that make the tables, each from the version before.
// A step that was released never changes.
//
// Times are microseconds since 1970. Of the events of an ordering key (column subject) that are to be handled exactly
// one is ready or running; that it is kept so by those who write, instead of
// being found out by those who claim, is what makes claims cheap however long
// a line is.
//
// Bodies, and the texts of errors, are in a separate table, so that their pages
// are free as soon as the events on them have been handled: what is left of an
// event, for weeks, is small, and must not hold large pages.
var migrations = []string{`
CREATE TABLE dispensary_inbox (
	seq         INTEGER PRIMARY KEY,
	key         TEXT NOT NULL UNIQUE,
	type        TEXT NOT NULL,
	clinic_id   TEXT NOT NULL,
	created_at  INTEGER,
	received_at INTEGER NOT NULL,
	order_at    INTEGER NOT NULL,
	subject     TEXT,
	object      TEXT,
	state       INTEGER NOT NULL,
	due_at      INTEGER NOT NULL,
	attempts    INTEGER NOT NULL DEFAULT 0,
	claim       INTEGER NOT NULL DEFAULT 0,
	body        BLOB,
	reason      TEXT,
	error       BLOB
);
CREATE INDEX dispensary_inbox_due ON dispensary_inbox (state, due_at, seq);
CREATE INDEX dispensary_inbox_line ON dispensary_inbox (subject, order_at, seq)
	WHERE subject IS NOT NULL AND state < 3;
CREATE TABLE dispensary_inbox_newest (
	object   TEXT PRIMARY KEY,
	at       INTEGER NOT NULL,
	noted_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX dispensary_inbox_newest_noted ON dispensary_inbox_newest (noted_at);
`, `
CREATE TABLE dispensary_inbox_checkpoints (
	name       TEXT PRIMARY KEY,
	holder     TEXT NOT NULL,
	held_until INTEGER NOT NULL,
	state      BLOB
);
`, `
CREATE TABLE dispensary_inbox_bodies (
	seq   INTEGER PRIMARY KEY,
	body  BLOB NOT NULL,
	error BLOB
);
INSERT INTO dispensary_inbox_bodies (seq, body, error)
	SELECT seq, body, error FROM dispensary_inbox WHERE body IS NOT NULL;
CREATE TABLE dispensary_inbox_events (
	seq         INTEGER PRIMARY KEY,
	key         TEXT NOT NULL UNIQUE,
	type        TEXT NOT NULL,
	clinic_id   TEXT NOT NULL,
	created_at  INTEGER,
	received_at INTEGER NOT NULL,
	order_at    INTEGER NOT NULL,
	subject     TEXT,
	object      TEXT,
	state       INTEGER NOT NULL,
	due_at      INTEGER NOT NULL,
	attempts    INTEGER NOT NULL DEFAULT 0,
	claim       INTEGER NOT NULL DEFAULT 0,
	reason      TEXT
);
INSERT INTO dispensary_inbox_events
	SELECT seq, key, type, clinic_id, created_at, received_at, order_at, subject, object,
		CASE state WHEN 0 THEN 2 WHEN 1 THEN 3 WHEN 2 THEN 4 WHEN 3 THEN 6 ELSE 5 END,
		due_at, attempts, claim, reason
	FROM dispensary_inbox;
DROP TABLE dispensary_inbox;
ALTER TABLE dispensary_inbox_events RENAME TO dispensary_inbox;
CREATE INDEX dispensary_inbox_due ON dispensary_inbox (state, due_at, seq);
CREATE INDEX dispensary_inbox_line ON dispensary_inbox (subject, order_at, seq)
	WHERE subject IS NOT NULL AND state < 5;
`}

// schemaVersions is the table of the version.
const schemaVersions = "CREATE TABLE IF NOT EXISTS dispensary_inbox_schema (version INTEGER NOT NULL)"

// Migrate makes the tables of the inbox, or brings them up to date. It can be
// run again at any time, by several processes at once, and does everything or
// nothing. An [Inbox] of the version before must not be open.
//
// All names begin with dispensary_inbox.
func Migrate(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlinbox: migrating: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := migrate(ctx, conn); err != nil {
		// A transaction that failed to begin has none to roll back.
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return fmt.Errorf("sqlinbox: migrating: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, conn *sql.Conn) error {
	steps := []string{
		"PRAGMA busy_timeout = 10000",
		"BEGIN IMMEDIATE",
		schemaVersions,
	}
	for _, step := range steps {
		if _, err := conn.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	version, err := versionOf(ctx, conn)
	if err != nil {
		return err
	}
	if version > len(migrations) {
		return ErrNewerSchema
	}
	for _, step := range migrations[version:] {
		if _, err := conn.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	for _, step := range []string{
		"DELETE FROM dispensary_inbox_schema",
		fmt.Sprintf("INSERT INTO dispensary_inbox_schema (version) VALUES (%d)", len(migrations)),
		"COMMIT",
	} {
		if _, err := conn.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func versionOf(ctx context.Context, conn *sql.Conn) (version int, err error) {
	err = conn.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM dispensary_inbox_schema").Scan(&version)
	return version, err
}

// checkSchema fails unless Migrate has been run by this version.
func checkSchema(ctx context.Context, conn *sql.Conn) error {
	var there bool
	err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name = 'dispensary_inbox_schema'").Scan(&there)
	if err != nil {
		return err
	}
	if !there {
		return ErrSchema
	}
	switch version, err := versionOf(ctx, conn); {
	case err != nil:
		return err
	case version < len(migrations):
		return ErrSchema
	case version > len(migrations):
		return ErrNewerSchema
	}
	return nil
}

// Schema returns the SQL of the whole schema, its version included, for those who
// apply it with their own migration tool instead of [Migrate], to a database without the
// tables. Migrate, which may be run on these tables as on any other, makes the changes of
// later versions.
func Schema() string {
	steps := append([]string{schemaVersions + ";"}, migrations...)
	steps = append(steps, fmt.Sprintf("INSERT INTO dispensary_inbox_schema (version) VALUES (%d);", len(migrations)))
	for n, step := range steps {
		steps[n] = strings.TrimSpace(step)
	}
	return strings.Join(steps, "\n") + "\n"
}
