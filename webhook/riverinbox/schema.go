package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/dispensary-go/dispensary/api"
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

// ErrSchema is returned by [New] where the tables are missing, or older than this
// package: call [Migrate].
var ErrSchema = errors.New("riverinbox: tables are missing or outdated: call Migrate")

// The states of a row. Below done, an event is alive.
const (
	stateWaiting = 1 // to be handled, not before due_at
	stateRunning = 2 // being handled; abandoned at due_at
	stateDone    = 3 // handled, skipped or discarded, at due_at
	stateDead    = 4 // a dead letter since due_at
)

// migrations are the steps that make the tables, each from the version before. A
// step that was released never changes, and leaves tables that the release
// before it can work with: replicas are replaced one by one.
//
// Bodies are not compressed, as sealed bytes do not compress. A line has a row
// only while a worker holds it.
var migrations = []string{`
CREATE TABLE {inbox} (
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
	claim       text COLLATE "C",
	body        bytea,
	reason      text,
	error       bytea
);
ALTER TABLE {inbox} ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX dispensary_inbox_due ON {inbox} (state, due_at, seq);
CREATE INDEX dispensary_inbox_line ON {inbox} (subject, order_at, seq) WHERE subject IS NOT NULL AND state < 3;
CREATE TABLE {lines} (
	subject text COLLATE "C" PRIMARY KEY,
	claim   text COLLATE "C" NOT NULL,
	until   timestamptz NOT NULL
);
CREATE TABLE {newest} (
	object   text COLLATE "C" PRIMARY KEY,
	at       timestamptz NOT NULL,
	noted_at timestamptz NOT NULL
);
CREATE INDEX dispensary_inbox_newest_noted ON {newest} (noted_at);
CREATE TABLE {checkpoints} (
	name   text COLLATE "C" PRIMARY KEY,
	holder text COLLATE "C" NOT NULL,
	until  timestamptz NOT NULL,
	state  bytea
)`}

// schemaVersions is the table of the version.
const schemaVersions = "CREATE TABLE IF NOT EXISTS {schema} (version integer NOT NULL)"

// names puts the names of the tables into statements.
func (t Tables) names() *strings.Replacer {
	in := func(schema, table string) string {
		if schema == "" {
			return table
		}
		return pgx.Identifier{schema}.Sanitize() + "." + table
	}
	return strings.NewReplacer(
		"{inbox}", in(t.Schema, "dispensary_inbox"),
		"{lines}", in(t.Schema, "dispensary_inbox_lines"),
		"{newest}", in(t.Schema, "dispensary_inbox_newest"),
		"{checkpoints}", in(t.Schema, "dispensary_inbox_checkpoints"),
		"{schema}", in(t.Schema, "dispensary_inbox_schema"),
		"{river_job}", in(t.River, "river_job"),
	)
}

// Migrate makes the tables of the inbox, or brings them up to date. It can be
// run again at any time, by any number of replicas at once, and does everything
// or nothing. Tables that are up to date are only looked at, which needs no right
// to change them; newer ones are left as they are.
func Migrate(ctx context.Context, pool *pgxpool.Pool, tables Tables) error {
	if err := validate(pool, tables); err != nil {
		return err
	}
	if err := checkSchema(ctx, pool, tables); !errors.Is(err, ErrSchema) {
		return err
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return migrate(ctx, tx, tables) })
	if err != nil {
		return fmt.Errorf("riverinbox: migrating: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, tx pgx.Tx, tables Tables) error {
	if err := takeTurn(ctx, tx, tables.Schema); err != nil {
		return err
	}
	names := tables.names()
	_, err := tx.Exec(ctx, names.Replace(schemaVersions))
	if err != nil {
		return err
	}
	version, err := versionOf(ctx, tx, tables)
	if err != nil || version >= len(migrations) {
		return err
	}
	for _, step := range migrations[version:] {
		for statement := range strings.SplitSeq(step, ";") {
			if _, err := tx.Exec(ctx, names.Replace(statement)); err != nil {
				return err
			}
		}
	}
	if _, err := tx.Exec(ctx, names.Replace("DELETE FROM {schema}")); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, names.Replace("INSERT INTO {schema} (version) VALUES ($1)"), len(migrations))
	return err
}

// MigrateRiver brings the tables of River up to date, as package rivermigrate
// does, with replicas taking turns. Programs that have River already migrate it
// as they always did.
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
		_, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("riverinbox: migrating River: %w", err)
	}
	return nil
}

func newMigrator(pool *pgxpool.Pool, tables Tables) (*rivermigrate.Migrator[pgx.Tx], error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{
		Schema: tables.River, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, fmt.Errorf("riverinbox: migrating River: %w", err)
	}
	return migrator, nil
}

// Schema returns the SQL of all tables of the inbox, their version included, for
// programs that apply it with a migration tool of their own instead of [Migrate], to a
// database without the tables. Migrate, which may be run on these tables as on any
// other, makes the changes of later versions. It fails with an [*api.ArgumentError].
func Schema(tables Tables) (string, error) {
	if err := tables.validate(); err != nil {
		return "", err
	}
	statements := []string{schemaVersions}
	for _, step := range migrations {
		statements = append(statements, strings.TrimSpace(step))
	}
	statements = append(statements, fmt.Sprintf("INSERT INTO {schema} (version) VALUES (%d)", len(migrations)))
	return tables.names().Replace(strings.Join(statements, ";\n") + ";\n"), nil
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
	return append(steps, versions.String()), nil
}

// takeTurn waits until no other replica migrates the schema; the turn ends with
// the transaction.
func takeTurn(ctx context.Context, tx pgx.Tx, schema string) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('dispensary_inbox migration ' || $1, 0))", schema)
	return err
}

type querier interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

func versionOf(ctx context.Context, q querier, tables Tables) (version int, err error) {
	err = q.QueryRow(ctx, tables.names().Replace("SELECT coalesce(max(version), 0) FROM {schema}")).Scan(&version)
	return version, err
}

// checkSchema fails unless Migrate has been run by this version or a later one.
func checkSchema(ctx context.Context, q querier, tables Tables) error {
	version, err := versionOf(ctx, q, tables)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == "42P01": // there is no such table
		return ErrSchema
	case err != nil:
		return fmt.Errorf("riverinbox: %w", err)
	case version < len(migrations):
		return ErrSchema
	}
	return nil
}
