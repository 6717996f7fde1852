package sqlkv

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/contention"
)

// DefaultTable is the name of the table.
const DefaultTable = "dispensary_inbox_kv"

// Options are the same for [Migrate] and [New].
type Options struct {
	// Table is the name of the table; empty means [DefaultTable]. Lower case
	// letters, digits and underscores, 50 at most, beginning with a letter.
	// Each inbox needs one of its own. In PostgreSQL set the search path to use
	// another schema.
	Table string
}

var tableForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,49}$`)

func (o Options) validate(db *sql.DB, dialect Dialect) error {
	switch {
	case db == nil:
		return &api.ArgumentError{Field: "sqlkv db", Reason: "is nil"}
	case schemas[dialect] == nil:
		return &api.ArgumentError{Field: "sqlkv.Dialect", Reason: "is none of PostgreSQL, MySQL and SQLite"}
	case !tableForm.MatchString(o.table()):
		return &api.ArgumentError{
			Field: "sqlkv.Options.Table", Reason: "must be lower case letters, digits and underscores, 50 at most, a letter first",
		}
	}
	return nil
}

func (o Options) table() string {
	if o.Table == "" {
		return DefaultTable
	}
	return o.Table
}

// name fills the name of the table in.
func (o Options) name(query string) string { return strings.ReplaceAll(query, "{table}", o.table()) }

// Migrate makes the table, where it is not there. It may run as often as you like,
// in any number of replicas at once. The table is a plain one of keys and values,
// which later versions of this package will not change.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect, options Options) error {
	if err := options.validate(db, dialect); err != nil {
		return err
	}
	for turn := new(contention.Turns); ; {
		err := migrate(ctx, db, dialect, options)
		// Of several that make one table at once PostgreSQL lets some fail.
		if err == nil || !turn.Next(ctx) || turn.Tries > 5 && !contention.Is(err) {
			return err
		}
	}
}

func migrate(ctx context.Context, db *sql.DB, dialect Dialect, options Options) error {
	for _, step := range schemas[dialect] {
		if _, err := db.ExecContext(ctx, options.name(step)); err != nil {
			return fmt.Errorf("sqlkv: migrate: %w", err)
		}
	}
	return nil
}

// Schema returns the SQL that makes the table, for those who apply it with a tool
// of their own instead of [Migrate]; empty for an unknown dialect.
func Schema(dialect Dialect, options Options) string {
	var script strings.Builder
	for _, step := range schemas[dialect] {
		script.WriteString(strings.TrimSpace(options.name(step)) + ";\n")
	}
	return script.String()
}

// SQLiteDSN returns the data source name of a database file for the driver
// modernc.org/sqlite: with a write-ahead log, so that readers do not wait for
// writers; with every commit on the disk before it counts, so that no event is
// lost to a power cut. All processes that use the file have to be on one machine.
//
// The driver waits for other writers for a moment only, because it does not look
// at the caller's context meanwhile; the store does the rest of the waiting.
func SQLiteDSN(path string) string {
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + strings.Join([]string{
		"_pragma=busy_timeout(50)", "_pragma=journal_mode(wal)", "_pragma=synchronous(full)", "_txlock=immediate",
	}, "&")
}
