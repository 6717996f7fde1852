package sqlkv

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
)

// page is how many rows are read or deleted at a time at most.
const page = 1000

// Store is a [watermillinbox.Store] in a table that [Migrate] made. It is safe for
// concurrent use; make one for a database and share it.
type Store struct {
	db      *sql.DB
	dialect Dialect
	options Options

	// writing lets the writers of this process take turns, where the database
	// is a file that has one writer at a time: to wait here is fair and costs
	// nothing, to wait in the driver is a matter of luck. Nil elsewhere.
	writing chan struct{}
}

var _ watermillinbox.Store = (*Store)(nil)

// New returns a store in db, which stays the caller's to close. It asks the
// database nothing. Errors are [api.ArgumentError].
func New(db *sql.DB, dialect Dialect, options Options) (*Store, error) {
	if err := options.validate(db, dialect); err != nil {
		return nil, err
	}
	s := &Store{db: db, dialect: dialect, options: options}
	if dialect == SQLite {
		s.writing = make(chan struct{}, 1)
	}
	return s, nil
}

// newRevision makes a revision that the key never had: it is made up, so that it
// does not matter what was deleted.
func newRevision() int64 { return rand.Int64N(1<<63-1) + 1 }

// blob is the value of an entry: to a driver, nil is NULL.
func blob(e watermillinbox.Entry) []byte {
	if e.Value == nil {
		return []byte{}
	}
	return e.Value
}

// Create implements [watermillinbox.Store], in one statement: all or nothing.
func (s *Store) Create(ctx context.Context, entries ...watermillinbox.Entry) ([]uint64, error) {
	revisions := make([]uint64, len(entries))
	args := make([]any, 0, 4*len(entries))
	for i, e := range entries {
		revision := newRevision()
		revisions[i] = uint64(revision)
		args = append(args, e.Key, blob(e), revision, e.Past)
	}
	row := `(?, ?, ?, CASE WHEN ? THEN ` + s.dialect.clock() + ` END)`
	if s.dialect == PostgreSQL { // whose places have types, and take them from where they stand
		row = `(?, ?, ?, CASE WHEN ?::boolean THEN ` + s.dialect.clock() + ` END)`
	}
	changed, err := s.change(ctx, "create", `INSERT INTO {table} (k, value, revision, past_at) VALUES `+
		repeat(row, len(entries))+s.dialect.skip(), args)
	if err == nil && changed < int64(len(entries)) {
		err = watermillinbox.ErrExists
	}
	return revisions, err
}

// Update implements [watermillinbox.Store].
func (s *Store) Update(ctx context.Context, e watermillinbox.Entry) (uint64, error) {
	revision := newRevision()
	past := `NULL`
	if e.Past {
		past = s.dialect.clock()
	}
	changed, err := s.change(ctx, "update", `UPDATE {table} SET value = ?, revision = ?, past_at = `+past+` WHERE k = ? AND revision = ?`,
		[]any{blob(e), revision, e.Key, int64(e.Revision)})
	if err == nil && changed == 0 {
		err = watermillinbox.ErrConflict
	}
	return uint64(revision), err
}

// Delete implements [watermillinbox.Store].
func (s *Store) Delete(ctx context.Context, entries ...watermillinbox.Entry) error {
	var args []any
	for _, e := range entries {
		args = append(args, e.Key, int64(e.Revision))
	}
	// Not (k, revision) IN ((?, ?)), for which MariaDB reads the whole table.
	changed, err := s.change(ctx, "delete", `DELETE FROM {table} WHERE `+strings.Join(slices.Repeat([]string{`k = ? AND revision = ?`}, len(entries)), ` OR `), args)
	if err == nil && changed < int64(len(entries)) {
		err = watermillinbox.ErrConflict
	}
	return err
}

// Get implements [watermillinbox.Store].
func (s *Store) Get(ctx context.Context, keys ...string) (map[string]watermillinbox.Entry, error) {
	found := make(map[string]watermillinbox.Entry, len(keys))
	args := make([]any, len(keys))
	for i, key := range keys {
		args[i] = key
	}
	if len(keys) == 0 {
		return found, nil
	}
	query := `SELECT k, value, revision FROM {table} WHERE k IN (` + repeat(`?`, len(keys)) + `)`
	err := s.each(ctx, "get", query, args, func(rows *sql.Rows) error {
		var e watermillinbox.Entry
		var revision int64
		err := rows.Scan(&e.Key, &e.Value, &revision)
		e.Revision = uint64(revision)
		found[e.Key] = e
		return err
	})
	return found, err
}

// List implements [watermillinbox.Store]. It reads a little at first, and more
// with every page: most want to know what comes first.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		// '.' ends the prefix, and '/' comes after it.
		from, to := prefix, prefix[:len(prefix)-1]+"/"
		for limit := 4; ; limit = min(8*limit, page) {
			var keys []string
			query := `SELECT k FROM {table} WHERE k > ? AND k < ? ORDER BY k LIMIT ?`
			err := s.each(ctx, "list", query, []any{from, to, limit}, func(rows *sql.Rows) error {
				var key string
				err := rows.Scan(&key)
				keys = append(keys, key)
				return err
			})
			for _, key := range keys {
				if !yield(key, nil) {
					return
				}
			}
			if err != nil {
				yield("", err)
				return
			}
			if len(keys) < limit {
				return
			}
			from = keys[len(keys)-1]
		}
	}
}

// Purge implements [watermillinbox.Store], a page at a time, so that nobody has to
// wait for it.
func (s *Store) Purge(ctx context.Context, before time.Time) error {
	query := `DELETE FROM {table} WHERE k IN (SELECT k FROM {table} WHERE past_at < ? LIMIT ?)`
	if s.dialect == MySQL { // which refuses the one and knows the other
		query = `DELETE FROM {table} WHERE past_at < ? LIMIT ?`
	}
	for deleted := int64(page); deleted == page; {
		var err error
		if deleted, err = s.change(ctx, "purge", query, []any{before.UnixMicro(), page}); err != nil {
			return err
		}
	}
	return nil
}

// Now implements [watermillinbox.Store].
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.each(ctx, "now", `SELECT `+s.dialect.clock(), nil, func(rows *sql.Rows) error {
		var micro int64
		err := rows.Scan(&micro)
		now = time.UnixMicro(micro).UTC()
		return err
	})
	return now, err
}

// Format prints the type only.
func (s *Store) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "sqlkv.Store") }
