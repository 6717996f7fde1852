package sqlinbox

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dispensary-go/dispensary/internal/sqldb"
)

// The states of a row. An event below stateDead is alive. Each value occupies one byte in the
// row, unlike 0 and 1: a row that grew would split its page and leave both halves half empty
// for a month. stateDone is the last one, so that the index by state grows at its end, where
// pages are filled up.
const (
	stateBlocked = 2 // an older event of the ordering key comes first
	stateReady   = 3 // due at due_at
	stateRunning = 4 // claimed until due_at
	stateDead    = 5 // a dead letter since due_at
	stateDone    = 6 // handled, skipped or discarded at due_at; only a discarded event has a reason
)

// script creates the tables.
//
// Times are microseconds since 1970. Of the alive events of an ordering key, exactly one is
// ready or running. Writers maintain that, so a claim is cheap with any number of waiting
// events.
//
// Column failures is JSON, and request_ids contains a line for each request ID in it. Rows of
// done events have neither, so they stay small. Index dispensary_inbox_dead contains all data
// for Count, in the order of its groups.
//
// dispensary_inbox_causes contains the groups of dead letters, with the times of
// inboxkit.Group.
//
// Bodies and the texts of errors have their own table, so their pages are free once their
// events have been handled. The rest of an event is stored for weeks and is small.
const script = `
CREATE TABLE IF NOT EXISTS dispensary_inbox_schema (
	id      INTEGER PRIMARY KEY,
	version INTEGER NOT NULL,
	oldest  INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS dispensary_inbox (
	seq          INTEGER PRIMARY KEY,
	key          TEXT NOT NULL UNIQUE,
	type         TEXT NOT NULL,
	clinic_id    TEXT NOT NULL,
	created_at   INTEGER,
	received_at  INTEGER NOT NULL,
	order_at     INTEGER NOT NULL,
	ordering_key TEXT,
	object       TEXT,
	state        INTEGER NOT NULL,
	due_at       INTEGER NOT NULL,
	attempts     INTEGER NOT NULL DEFAULT 0,
	claim        INTEGER NOT NULL DEFAULT 0,
	reason       TEXT,
	failures     TEXT,
	request_ids  TEXT
);
CREATE INDEX IF NOT EXISTS dispensary_inbox_due ON dispensary_inbox (state, due_at, seq);
CREATE INDEX IF NOT EXISTS dispensary_inbox_order ON dispensary_inbox (ordering_key, order_at, seq) WHERE ordering_key IS NOT NULL AND state < 5;
CREATE INDEX IF NOT EXISTS dispensary_inbox_dead ON dispensary_inbox (state, reason, type, clinic_id, due_at, received_at, key, request_ids) WHERE state = 5;
CREATE TABLE IF NOT EXISTS dispensary_inbox_causes (
	reason    TEXT NOT NULL,
	type      TEXT NOT NULL,
	clinic_id TEXT NOT NULL,
	events    INTEGER NOT NULL,
	oldest    INTEGER NOT NULL,
	first     INTEGER NOT NULL,
	last      INTEGER NOT NULL,
	PRIMARY KEY (reason, type, clinic_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS dispensary_inbox_bodies (
	seq   INTEGER PRIMARY KEY,
	body  BLOB NOT NULL,
	error BLOB
);
CREATE TABLE IF NOT EXISTS dispensary_inbox_newest (
	object   TEXT PRIMARY KEY,
	at       INTEGER NOT NULL,
	noted_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS dispensary_inbox_newest_noted ON dispensary_inbox_newest (noted_at);
CREATE TABLE IF NOT EXISTS dispensary_inbox_checkpoints (
	name       TEXT PRIMARY KEY,
	holder     TEXT NOT NULL,
	held_until INTEGER NOT NULL,
	state      BLOB
);
REPLACE INTO dispensary_inbox_schema (id, version, oldest) VALUES (1, 1, 1)`

var schema = sqldb.Schema{Dialect: sqldb.SQLite, Script: script, Migrate: "sqlinbox.Migrate"}

// Migrate creates or migrates the tables. If they have the version of this release, it only
// reads. Processes may call it concurrently. If another program created a table, or a newer
// release no longer admits this one, it changes nothing and fails with a [*api.SchemaError].
//
// All names begin with dispensary_inbox.
func Migrate(ctx context.Context, db *sql.DB) error {
	if err := schema.Create(ctx, db); err != nil {
		return fmt.Errorf("sqlinbox: migrate: %w", err)
	}
	return nil
}

// checkSchema fails with a [*api.SchemaError] if the tables are missing or have another version.
func checkSchema(ctx context.Context, conn *sql.Conn) error {
	if err := schema.Check(ctx, conn); err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	return nil
}

// Schema returns the SQL of [Migrate], for other migration tools.
func Schema() string { return script }
