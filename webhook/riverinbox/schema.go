package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

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
	stateWaiting   = 1 // to be handled, not before due_at
	stateAbandoned = 2 // so, after an attempt that was abandoned; for the release before, being handled until due_at
	stateDone      = 3 // handled, skipped or discarded, at due_at
	stateDead      = 4 // a dead letter since due_at
)

// migrations are the steps that make the tables, each from the version before. A
// step that was released never changes, and leaves tables that the release
// before it can work with: replicas are replaced one by one. It locks no table for
// longer than it takes to note a change in the catalog.
//
// Bodies are not compressed, as sealed bytes do not compress.
var migrations = []string{firstTables, ledgerTables}

const firstTables = `
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
CREATE TABLE {claims} (
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
)`

// ledgerTables make the table of events one of what is not handled, and that of lines one of
// claims. A claim and its end leave no version of an event behind that a vacuum has to wait
// for, but dead rows, soon: the tables that this goes through are vacuumed by their changes
// and not by their size.
//
// The triggers are for replicas of the release before, which know neither ledger nor bodies,
// and claim an event in its own row: what they accept again is left out, what they claim has
// its body, and they claim nothing that has a claim already. Where they come for one that was
// abandoned, the attempt is noted. Only they write to claim of an event, and change that of
// a claim. A later version drops the triggers.
var ledgerTables = `
CREATE TABLE {ledger} (
	day    date NOT NULL,
	digest uuid NOT NULL,
	PRIMARY KEY (digest, day)
) PARTITION BY LIST (day);
CREATE TABLE {bodies} (
	day  date NOT NULL,
	seq  bigint NOT NULL,
	body bytea NOT NULL,
	PRIMARY KEY (day, seq)
) PARTITION BY LIST (day);
ALTER TABLE {bodies} ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE {inbox} ADD COLUMN body_day date;
ALTER TABLE {inbox} SET (` + vacuumSoon + `);
ALTER TABLE {claims} SET (` + vacuumSoon + `), ADD COLUMN event text COLLATE "C", ADD COLUMN attempt integer;
ALTER TABLE {newest} SET (fillfactor = 80, ` + vacuumSoon + `);
CREATE FUNCTION {known_once}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF ` + inLedger("NEW", "") + ` THEN
		IF TG_WHEN = 'BEFORE' THEN
			RETURN NULL;
		END IF;
		DELETE FROM {inbox} WHERE key = NEW.key;
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER dispensary_inbox_known_before BEFORE INSERT ON {inbox} FOR EACH ROW
	WHEN (NEW.body_day IS NULL) EXECUTE FUNCTION {known_once}();
CREATE TRIGGER dispensary_inbox_known_after AFTER INSERT ON {inbox} FOR EACH ROW
	WHEN (NEW.body_day IS NULL) EXECUTE FUNCTION {known_once}();
CREATE FUNCTION {former_claim}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.subject IS NULL AND EXISTS (SELECT FROM {claims} WHERE subject = NEW.key) THEN
		` + endAbandoned("NEW.key") + `;
		RETURN NULL;
	END IF;
	NEW.body := coalesce(NEW.body, (SELECT body FROM {bodies} WHERE day = NEW.body_day AND seq = NEW.seq));
	RETURN NEW;
END $$;
CREATE TRIGGER dispensary_inbox_former_claim BEFORE UPDATE ON {inbox} FOR EACH ROW
	WHEN (NEW.state = 2 AND NEW.claim IS DISTINCT FROM OLD.claim AND NEW.claim IS NOT NULL) EXECUTE FUNCTION {former_claim}();
CREATE FUNCTION {former_take}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE {inbox} SET state = 2, claim = NULL, attempts = OLD.attempt WHERE key = OLD.event AND state < 3;
	NEW.event := NULL;
	NEW.attempt := NULL;
	RETURN NEW;
END $$;
CREATE TRIGGER dispensary_inbox_former_take BEFORE UPDATE ON {claims} FOR EACH ROW
	WHEN (NEW.claim IS DISTINCT FROM OLD.claim AND OLD.event IS NOT NULL) EXECUTE FUNCTION {former_take}()`

// vacuumSoon are settings of a table that much goes through and little stays in. Its file is
// not cut off where its end is empty: that takes a lock which all accepts wait for, and the
// space is needed again soon.
const vacuumSoon = "vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5"

// schemaVersions is the table of the version.
const schemaVersions = "CREATE TABLE IF NOT EXISTS {schema} (version integer NOT NULL)"

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
		"{known_once}", t.in("dispensary_inbox_known_once"),
		"{former_claim}", t.in("dispensary_inbox_former_claim"),
		"{former_take}", t.in("dispensary_inbox_former_take"),
		"{schema}", t.in("dispensary_inbox_schema"),
		"{river_job}", qualified(t.River, "river_job"),
	)
}

// Migrate makes the tables of the inbox, or brings them up to date. It can be
// run again at any time, by any number of replicas at once, and does everything
// or nothing. Tables that are up to date are only looked at, which needs no right
// to change them; newer ones are left as they are. Where a transaction that is open
// keeps it from changing a table, it tries again until ctx ends, and delays no other
// meanwhile.
func Migrate(ctx context.Context, pool *pgxpool.Pool, tables Tables) error {
	if err := validate(pool, tables); err != nil {
		return err
	}
	if err := checkSchema(ctx, pool, tables); !errors.Is(err, ErrSchema) {
		return err
	}
	for {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return migrate(ctx, tx, tables) })
		if err != nil && contended(err) && wait(ctx, time.Second) {
			continue
		}
		if err != nil {
			return fmt.Errorf("riverinbox: migrating: %w", err)
		}
		return nil
	}
}

// wait returns true after so long, unless ctx ends.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
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
	if version > 0 {
		// Who changes a table waits for all who use it, and all who come wait for him: he
		// gives up soon, and tries again. Before that, a vacuum is made to end, which
		// delays no other.
		_, err := tx.Exec(ctx, names.Replace(fmt.Sprintf(`LOCK TABLE {inbox}, {claims}, {newest} IN SHARE UPDATE EXCLUSIVE MODE;
			SET LOCAL lock_timeout = %d`, ddlPatience.Milliseconds())))
		if err != nil {
			return err
		}
	}
	for _, step := range migrations[version:] {
		if _, err := tx.Exec(ctx, names.Replace(step)); err != nil {
			return err
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

// jobsVacuumedSoon does for River's jobs what ledgerTables does for events.
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
	return append(steps, versions.String()+tables.names().Replace(jobsVacuumedSoon)+";\n"), nil
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
