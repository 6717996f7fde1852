package riverinbox

import (
	"context"
	_ "embed"
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

//go:embed schema.sql
var script string

// vacuumSoon are settings of a table that much goes through and little stays in. Its file is not
// cut off where its end is empty: that takes a lock which all accepts wait for, and the space is
// needed again soon.
const vacuumSoon = "vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5"

// byIndex are settings of a function: it looks rows up in indexes, whatever plan is best for the
// small table that there was when the plan was made.
const byIndex = "SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off"

// namesOf puts the names of a schema into statements.
func namesOf(schema string) *strings.Replacer {
	return strings.NewReplacer("{s}", pgx.Identifier{schema}.Sanitize(), "{plain}", schema, "{kind}", kind, "{queue}", queue, "{vacuum}", vacuumSoon, "{index}", byIndex)
}

// schemaForm is what River takes for a name of a schema.
var schemaForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,45}$`)

func validateSchema(name string) error {
	if !schemaForm.MatchString(name) {
		return &api.ArgumentError{
			Field: "riverinbox.Config.Schema", Reason: "must be letters, digits and underscores, 46 at most, not beginning with a digit",
		}
	}
	return nil
}

// SchemaError reports a difference between a database and the tables of an [Inbox]. Table is the
// first wrong table. Column is its missing column, or empty if the whole table is missing.
type SchemaError = sqlschema.Error

func scriptOf(schema string) sqlschema.Schema {
	return sqlschema.Schema{Dialect: sqlschema.PostgreSQL, Script: namesOf(schema).Replace(script)}
}

// schemaOf returns the name of a schema, which is that of the search path if it has none.
func schemaOf(ctx context.Context, pool *pgxpool.Pool, name string) (string, error) {
	if pool == nil {
		return "", &api.ArgumentError{Field: "pool", Reason: "is nil"}
	}
	if name == "" {
		var current *string
		if err := pool.QueryRow(ctx, "SELECT current_schema()").Scan(&current); err != nil {
			return "", fmt.Errorf("riverinbox: %w", err)
		}
		if current == nil {
			return "", &api.ArgumentError{Field: "riverinbox.Config.Schema", Reason: "is missing, and the search path has no schema that exists"}
		}
		name = *current
	}
	return name, validateSchema(name)
}

// Migrate creates the tables of the inbox, and creates those of River or brings them up to date
// with package rivermigrate, in a schema that it creates, too. Empty means the first schema of
// the search path. If nothing is missing, it only reads, so a role without the right to create
// tables can call it at every start. Replicas may call it at the same time. It fails with a
// [*SchemaError] if a table lacks a column, because another program or release created it.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	schema, err := schemaOf(ctx, pool, schema)
	if err != nil {
		return err
	}
	if err := migrateRiver(ctx, pool, schema); err != nil {
		return fmt.Errorf("riverinbox: migrating River: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	if err := errors.Join(scriptOf(schema).Create(ctx, db), db.Close()); err != nil {
		return fmt.Errorf("riverinbox: migrate: %w", err)
	}
	return nil
}

// checkSchema fails with a [*SchemaError] if a table or a column is missing.
func checkSchema(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	db := stdlib.OpenDBFromPool(pool)
	if err := errors.Join(scriptOf(schema).Check(ctx, db), db.Close()); err != nil {
		return fmt.Errorf("riverinbox: %w", err)
	}
	return nil
}

// migrateRiver creates the schema and the tables of River. Replicas take turns.
func migrateRiver(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	migrator, err := newMigrator(pool, schema)
	if err != nil {
		return err
	}
	if result, err := migrator.Validate(ctx, nil); err == nil && result.OK {
		return nil
	}
	// The lock is that of another connection: River migrates in transactions of its own, one for
	// each of its steps.
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('inbox migration ' || $1, 0))", schema); err != nil {
			return err
		}
		var missing bool
		if err := tx.QueryRow(ctx, "SELECT to_regnamespace($1) IS NULL", pgx.Identifier{schema}.Sanitize()).Scan(&missing); err != nil {
			return err
		}
		if missing {
			if _, err := pool.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize()); err != nil {
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

// Schema returns the SQL that [Migrate] runs, for a program that applies it with another tool:
// the steps of River, in the version that this package is built with, and then the inbox's own.
// A step has to be committed before the next, which may use what it adds to an enumeration: make
// a migration of each. It fails with an [*api.ArgumentError].
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
	return append(steps, versions.String(), scriptOf(schema).Script), nil
}
