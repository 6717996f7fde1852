package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqlschema"
)

// Tables says where in the database everything is. The zero value leaves it to
// the search path of the connections.
type Tables struct {
	// Schema holds the tables of the inbox, whose names begin with
	// dispensary_inbox. River holds those of River. Both have to be there
	// before Migrate; letters, digits and underscores, 46 at most.
	Schema, River string
}

// schemaForm is what River takes for a name of a schema.
var schemaForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,45}$`)

// validate checks what everything here that asks the database begins with.
func validate(pool *pgxpool.Pool, tables Tables) error {
	if pool == nil {
		return &api.ArgumentError{Field: "pool", Reason: "is nil"}
	}
	return tables.validate()
}

func (t Tables) validate() error {
	for field, schema := range map[string]string{"Schema": t.Schema, "River": t.River} {
		if schema != "" && !schemaForm.MatchString(schema) {
			return &api.ArgumentError{
				Field: "riverinbox.Tables." + field, Reason: "must be letters, digits and underscores, 46 at most, not beginning with a digit",
			}
		}
	}
	return nil
}

// The states of a row. Below done, an event is alive.
const (
	stateWaiting   = 1 // to be handled, not before due_at
	stateAbandoned = 2 // so, after an attempt that was abandoned
	stateDone      = 3 // handled, skipped or discarded, at due_at
	stateDead      = 4 // a dead letter since due_at
)

// script creates the tables. {inbox} contains the events that are alive, {claims} a row for each
// event that a worker handles. A claim and its end leave only dead rows of small tables.
//
// Bodies are not compressed, because sealed bytes do not compress.
const script = `
CREATE TABLE IF NOT EXISTS {inbox} (
	key         text COLLATE "C" PRIMARY KEY,
	seq         bigint GENERATED ALWAYS AS IDENTITY,
	type        text NOT NULL,
	clinic_id   text NOT NULL,
	created_at  timestamptz,
	received_at timestamptz NOT NULL,
	order_at    timestamptz NOT NULL,
	subject     text COLLATE "C",
	object      text COLLATE "C",
	state       smallint NOT NULL,
	due_at      timestamptz NOT NULL,
	attempts    integer NOT NULL DEFAULT 0,
	body        bytea,
	body_day    date,
	reason      text,
	error       bytea
) WITH (` + vacuumSoon + `);
ALTER TABLE {inbox} ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX IF NOT EXISTS dispensary_inbox_due ON {inbox} (state, due_at, seq);
CREATE INDEX IF NOT EXISTS dispensary_inbox_line ON {inbox} (subject, order_at, seq) WHERE subject IS NOT NULL AND state < 3;
CREATE TABLE IF NOT EXISTS {claims} (
	subject text COLLATE "C" PRIMARY KEY,
	claim   text COLLATE "C" NOT NULL,
	until   timestamptz NOT NULL,
	event   text COLLATE "C" NOT NULL,
	attempt integer NOT NULL
) WITH (` + vacuumSoon + `);
CREATE TABLE IF NOT EXISTS {newest} (
	object   text COLLATE "C" PRIMARY KEY,
	at       timestamptz NOT NULL,
	noted_at timestamptz NOT NULL
) WITH (fillfactor = 80, ` + vacuumSoon + `);
CREATE INDEX IF NOT EXISTS dispensary_inbox_newest_noted ON {newest} (noted_at);
CREATE TABLE IF NOT EXISTS {checkpoints} (
	name   text COLLATE "C" PRIMARY KEY,
	holder text COLLATE "C" NOT NULL,
	until  timestamptz NOT NULL,
	state  bytea
);
CREATE TABLE IF NOT EXISTS {ledger} (
	day    date NOT NULL,
	digest uuid NOT NULL,
	PRIMARY KEY (digest, day)
) PARTITION BY LIST (day);
CREATE TABLE IF NOT EXISTS {bodies} (
	day  date NOT NULL,
	seq  bigint NOT NULL,
	body bytea NOT NULL,
	PRIMARY KEY (day, seq)
) PARTITION BY LIST (day);
ALTER TABLE {bodies} ALTER COLUMN body SET STORAGE EXTERNAL`

// vacuumSoon are settings of a table that much goes through and little stays in. Its file is
// not cut off where its end is empty: that takes a lock which all accepts wait for, and the
// space is needed again soon.
const vacuumSoon = "vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5"

// in returns the name of a table of the inbox in statements.
func (t Tables) in(table string) string { return qualified(t.Schema, table) }

func qualified(schema, table string) string {
	if schema == "" {
		return table
	}
	return pgx.Identifier{schema}.Sanitize() + "." + table
}

// names puts the names of the tables into statements.
func (t Tables) names() *strings.Replacer {
	return strings.NewReplacer(
		"{inbox}", t.in("dispensary_inbox"),
		"{claims}", t.in("dispensary_inbox_lines"),
		"{newest}", t.in("dispensary_inbox_newest"),
		"{checkpoints}", t.in("dispensary_inbox_checkpoints"),
		"{ledger}", t.in(ledgerTable),
		"{bodies}", t.in(bodiesTable),
		"{river_job}", qualified(t.River, "river_job"),
	)
}

// SchemaError reports a difference between a database and the tables of an [Inbox]. Table is the
// first wrong table. Column is its missing column, or empty if the whole table is missing.
type SchemaError = sqlschema.Error

func (t Tables) script() sqlschema.Schema {
	return sqlschema.Schema{Dialect: sqlschema.PostgreSQL, Script: t.names().Replace(script)}
}

// Migrate creates the missing tables of the inbox. If none is missing, it only reads, so a role
// without the right to create tables can call it at every start. Replicas may call it at the
// same time. It fails with a [*SchemaError] and changes nothing if a table lacks a column,
// because another program or release created it.
func Migrate(ctx context.Context, pool *pgxpool.Pool, tables Tables) error {
	if err := validate(pool, tables); err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	if err := errors.Join(tables.script().Create(ctx, db), db.Close()); err != nil {
		return fmt.Errorf("riverinbox: migrate: %w", err)
	}
	return nil
}

// checkSchema fails with a [*SchemaError] if a table or a column is missing.
func checkSchema(ctx context.Context, pool *pgxpool.Pool, tables Tables) error {
	db := stdlib.OpenDBFromPool(pool)
	if err := errors.Join(tables.script().Check(ctx, db), db.Close()); err != nil {
		return fmt.Errorf("riverinbox: %w", err)
	}
	return nil
}

// MigrateRiver creates the tables of River, or brings them up to date, with package rivermigrate.
// If nothing is missing, it only reads. Replicas take turns. A program that has River already
// continues to migrate it by itself.
func MigrateRiver(ctx context.Context, pool *pgxpool.Pool, tables Tables) error {
	if err := validate(pool, tables); err != nil {
		return err
	}
	migrator, err := newMigrator(pool, tables)
	if err != nil {
		return err
	}
	if result, err := migrator.Validate(ctx, nil); err == nil && result.OK {
		return nil
	}
	// The lock is that of another connection: River migrates in transactions of
	// its own, one for each of its steps.
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := takeTurn(ctx, tx, tables.River); err != nil {
			return err
		}
		if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, tables.names().Replace(jobsVacuumedSoon))
		return err
	})
	if err != nil {
		return fmt.Errorf("riverinbox: migrating River: %w", err)
	}
	return nil
}

// jobsVacuumedSoon sets the same for River's jobs as script sets for events.
const jobsVacuumedSoon = "ALTER TABLE {river_job} SET (" + vacuumSoon + ")"

func newMigrator(pool *pgxpool.Pool, tables Tables) (*rivermigrate.Migrator[pgx.Tx], error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{
		Schema: tables.River, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, fmt.Errorf("riverinbox: migrating River: %w", err)
	}
	return migrator, nil
}

// Schema returns the SQL that [Migrate] runs, for a program that applies it with another tool. It
// fails with an [*api.ArgumentError].
func Schema(tables Tables) (string, error) {
	if err := tables.validate(); err != nil {
		return "", err
	}
	return tables.script().Script, nil
}

// SchemaRiver is to [MigrateRiver] what [Schema] is to [Migrate]: the SQL of River's
// own tables, in the version of River that this package is built with, step by step. A
// step has to be committed before the next, which may use what it adds to an
// enumeration: make a migration of each.
func SchemaRiver(tables Tables) ([]string, error) {
	if err := tables.validate(); err != nil {
		return nil, err
	}
	migrator, err := newMigrator(nil, tables)
	if err != nil {
		return nil, err
	}
	prefix := ""
	if tables.River != "" {
		prefix = pgx.Identifier{tables.River}.Sanitize() + "."
	}
	var steps []string
	var versions strings.Builder
	for _, step := range migrator.AllVersions() {
		steps = append(steps, strings.TrimSpace(strings.ReplaceAll(step.SQLUp, "/* TEMPLATE: schema */", prefix))+"\n")
		fmt.Fprintf(&versions, "INSERT INTO %sriver_migration (line, version) VALUES ('main', %d);\n", prefix, step.Version)
	}
	return append(steps, versions.String()+tables.names().Replace(jobsVacuumedSoon)+";\n"), nil
}

// takeTurn waits until no other replica migrates the schema; the turn ends with
// the transaction.
func takeTurn(ctx context.Context, tx pgx.Tx, schema string) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('dispensary_inbox migration ' || $1, 0))", schema)
	return err
}
