package riverinbox

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqldb"
)

//go:embed schema.sql
var script string

// vacuumSoon contains settings of tables with many short-lived rows. Truncation is off, because its
// lock delays accepts.
const vacuumSoon = "vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5"

// byIndex contains settings of functions. They force the use of indexes, because plans are cached
// and the tables may have been small at first.
const byIndex = "SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off"

// namesOf returns the placeholders of statements and their values.
func namesOf(schema string) *strings.Replacer {
	return strings.NewReplacer("{s}", pgx.Identifier{schema}.Sanitize(), "{plain}", schema, "{kind}", kind, "{queue}", queue, "{vacuum}", vacuumSoon, "{index}", byIndex, "{reason}", reason, "{group}", strconv.Itoa(groupSize), "{lock}", "hashtextextended('{s} order ' ||", "{mark}", "set_config('dispensary.inbox', 'on', true)")
}

func scriptOf(schema string, script string) sqldb.Schema {
	return sqldb.Schema{Dialect: sqldb.PostgreSQL, Script: namesOf(schema).Replace(script), Migrate: "riverinbox.Migrate"}
}

// schemaOf returns the name of the schema.
func schemaOf(pool *pgxpool.Pool, name string) (string, error) {
	if pool == nil {
		return "", &api.ArgumentError{Field: "pool", Reason: "is nil"}
	}
	name = cmp.Or(name, "dispensary_inbox")
	return name, validateSchema(name)
}

// schemaForm is the form of schema names in River.
var schemaForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,45}$`)

func validateSchema(name string) error {
	if schemaForm.MatchString(name) {
		return nil
	}
	return &api.ArgumentError{Field: "riverinbox.Config.Schema", Reason: "must consist of 1 to 46 letters, digits and underscores, and not begin with a digit"}
}

// Migrate creates or migrates the schema, and River's tables with package rivermigrate. An empty
// name means dispensary_inbox. If both have the versions of this release, Migrate
// only reads, so it needs no right to create tables. Processes can call it concurrently, also while
// others accept and handle events. It fails with a [*api.SchemaError] if another program has created
// a table, or if a newer release no longer admits this one.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return migrate(ctx, pool, schema, script)
}

func migrate(ctx context.Context, pool *pgxpool.Pool, schema, script string) error {
	schema, err := schemaOf(pool, schema)
	if err != nil {
		return err
	}
	if err := migrateRiver(ctx, pool, schema); err != nil {
		return fmt.Errorf("riverinbox: migrate River: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	if err := errors.Join(scriptOf(schema, script).Create(ctx, db), db.Close()); err != nil {
		return fmt.Errorf("riverinbox: migrate: %w", err)
	}
	return nil
}

// migrateRiver creates the schema and the tables of River. Processes take turns.
func migrateRiver(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	migrator, err := newMigrator(pool, schema)
	if err != nil {
		return err
	}
	if result, err := migrator.Validate(ctx, nil); err == nil && result.OK {
		return nil
	}
	// Another connection holds the lock, because River migrates in several transactions.
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('inbox migration ' || $1, 0))", schema); err != nil {
			return err
		}
		name := pgx.Identifier{schema}.Sanitize()
		var missing bool
		if err := tx.QueryRow(ctx, "SELECT to_regnamespace($1) IS NULL", name).Scan(&missing); err != nil {
			return err
		}
		if missing {
			if _, err := pool.Exec(ctx, "CREATE SCHEMA "+name); err != nil {
				return err
			}
		}
		_, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	})
}

func newMigrator(pool *pgxpool.Pool, schema string) (*rivermigrate.Migrator[pgx.Tx], error) {
	return rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
}

// Schema returns the SQL of [Migrate] for other migration tools: the steps of River and the step of
// the inbox. Commit each step before the next one. Schema fails with an [*api.ArgumentError].
func Schema(schema string) ([]string, error) {
	if err := validateSchema(schema); err != nil {
		return nil, err
	}
	migrator, err := newMigrator(nil, schema)
	if err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	name := pgx.Identifier{schema}.Sanitize()
	steps := []string{"CREATE SCHEMA IF NOT EXISTS " + name + ";\n"}
	var versions strings.Builder
	for _, step := range migrator.AllVersions() {
		steps = append(steps, strings.TrimSpace(strings.ReplaceAll(step.SQLUp, "/* TEMPLATE: schema */", name+"."))+"\n")
		fmt.Fprintf(&versions, "INSERT INTO %s.river_migration (line, version) VALUES ('main', %d);\n", name, step.Version)
	}
	return append(steps, versions.String(), scriptOf(schema, script).Script), nil
}
