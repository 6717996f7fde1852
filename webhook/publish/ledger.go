package publish

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/contention"
	"github.com/dispensary-go/dispensary/internal/failover"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
	"github.com/dispensary-go/dispensary/internal/sqlschema"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

const (
	// pruneEvery is after how many new keys a process removes old ones, and
	// pruneLimit how many at a time, so that no accept waits for long.
	pruneEvery = 100
	pruneLimit = 1000
)

// Ledger remembers the keys of events in the table dispensary_ledger, and the checkpoints of a
// reconciler in dispensary_ledger_checkpoints. An [Inbox] notes the events that it has published,
// and a [Consumer] the events that it has handled. Both can share one ledger, and so can all
// replicas. It stores digests only, for 31 days. It is safe for concurrent use.
//
// A key is noted after what it stands for: what happens twice at the same time, or is
// broken off before the note, happens twice.
type Ledger struct {
	db      *sql.DB
	pool    pool
	dialect dialect
	added   atomic.Int64
}

// NewLedger returns the ledger in a database of PostgreSQL, MySQL, MariaDB or SQLite, and creates the
// missing tables. If none is missing, it only reads, so a role without the right to create tables can
// call it. The program closes db after the ledger. An error is an [*api.ArgumentError],
// [ErrUnsafePath], a [*SchemaError], or an error of the database.
//
// For a SQLite file on Linux, call sqlite.OFDLocking(true) of modernc.org/sqlite before the first
// connection. Without it, a program that reads its own database file drops the locks of SQLite when
// it closes the file.
func NewLedger(ctx context.Context, db *sql.DB) (*Ledger, error) {
	if db == nil {
		return nil, &api.ArgumentError{Field: "publish.NewLedger db", Reason: "is nil"}
	}
	l := &Ledger{db: db, pool: failover.SQL(db)}
	err := contention.Retry(ctx, func() (err error) {
		l.dialect, err = detect(ctx, db)
		return err
	})
	if err != nil {
		return nil, ledgerError(err)
	}
	if l.dialect.name == SQLite {
		l.pool = sqlitefile.NewPool(db)
	}
	return l, l.create(ctx)
}

// pool runs statements on one connection of a pool.
type pool interface {
	Do(ctx context.Context, run func(*sql.Conn) error) error
}

// Errors of a ledger in a SQLite file.
var (
	// ErrReplaced: the SQLite database or its log was moved, removed or replaced while it was
	// open, so that the next start would not find what is written now. Every method of the
	// ledger fails with it from then on. Restart the process.
	ErrReplaced = sqlitefile.ErrReplaced

	// ErrUnsafePath: the SQLite database has several hard links, or is mounted alone, as with
	// "docker run -v ./ledger.db:/data/ledger.db", so that its log would stay behind. Mount the
	// folder.
	ErrUnsafePath = sqlitefile.ErrUnsafePath
)

// LedgerSchema returns the SQL of a ledger's tables, for a program that applies it with another
// tool. An error is an [*api.ArgumentError].
func LedgerSchema(d Dialect) (string, error) {
	spoken, known := dialects[d]
	if !known {
		return "", &api.ArgumentError{Field: "publish.Dialect", Reason: "is none of PostgreSQL, MySQL and SQLite"}
	}
	return spoken.script, nil
}

// SchemaError reports a table of another program in place of a table of a [Ledger]. Column is its
// missing column.
type SchemaError = sqlschema.Error

// create creates the tables that are missing. The check comes first, in the pool, which rejects
// an unsafe file.
func (l *Ledger) create(ctx context.Context) error {
	schema := sqlschema.Schema{Dialect: string(l.dialect.name), Script: l.dialect.script}
	err := l.pool.Do(ctx, func(conn *sql.Conn) error { return schema.Check(ctx, conn) })
	if errors.As(err, new(*SchemaError)) {
		err = schema.Create(ctx, l.db)
	}
	if err != nil {
		return ledgerError(err)
	}
	return nil
}

// Format prints the type only.
func (l *Ledger) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "publish.Ledger") }

// purpose is what a key is noted for, so that what was published does not pass for
// handled.
type purpose string

const published purpose = "published"

func handledBy(name string) purpose { return purpose("handled by " + name) }

// id is what stands for a key in the table: of one length, whatever the platform's ids
// are.
func (p purpose) id(key webhook.Key) []byte {
	digest := sha256.Sum256([]byte(string(p) + "\n" + key.String()))
	return digest[:]
}

// missing returns those of the keys that were not noted, in order and without repeats.
func (l *Ledger) missing(ctx context.Context, p purpose, keys []webhook.Key) ([]webhook.Key, error) {
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	ids := make([]any, len(keys))
	for n, key := range keys {
		ids[n] = p.id(key)
	}
	known := map[string]bool{}
	query := `SELECT id FROM dispensary_ledger WHERE id IN (?` + strings.Repeat(`, ?`, len(keys)-1) + `)`
	err := l.pool.Do(ctx, func(conn *sql.Conn) error {
		rows, err := conn.QueryContext(ctx, l.dialect.sql(query), ids...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id []byte
			if err := rows.Scan(&id); err != nil {
				return err
			}
			known[string(id)] = true
		}
		return rows.Err()
	})
	if err != nil {
		return nil, ledgerError(err)
	}
	return inboxkit.Missing(keys, func(key webhook.Key) bool { return known[string(p.id(key))] }), nil
}

// add notes a key. Noting it again does nothing.
func (l *Ledger) add(ctx context.Context, p purpose, key webhook.Key) error {
	err := l.exec(ctx, `INSERT INTO dispensary_ledger (id, noted_at) VALUES (?, {now}) `+fmt.Sprintf(l.dialect.ignore, "id"), p.id(key))
	if err == nil && l.added.Add(1)%pruneEvery == 0 {
		return l.prune(ctx)
	}
	return err
}

// prune deletes some of the keys that are older than 31 days.
func (l *Ledger) prune(ctx context.Context) error {
	// The inner SELECT is there for MySQL, which has no LIMIT in a subquery.
	return l.exec(ctx, fmt.Sprintf(`DELETE FROM dispensary_ledger WHERE id IN
		(SELECT id FROM (SELECT id FROM dispensary_ledger WHERE noted_at < {now} - ? ORDER BY noted_at LIMIT %d) AS old)`, pruneLimit),
		inboxkit.Retention.Microseconds())
}

// CheckWrite reports whether the ledger accepts writes. It writes a row of the table of
// checkpoints, which all processes share, and fails if that fails, such as on a read-only
// server. Call it every few seconds at most.
func (l *Ledger) CheckWrite(ctx context.Context) error {
	const name = "write check"
	err := l.exec(ctx, `INSERT INTO dispensary_ledger_checkpoints (name, holder, held_until) VALUES (?, '', 0) `+fmt.Sprintf(l.dialect.ignore, "name"), name)
	if err != nil {
		return err
	}
	return l.exec(ctx, `UPDATE dispensary_ledger_checkpoints SET held_until = {now} WHERE name = ?`, name)
}

// exec runs a statement. It runs the statement again if the database aborted it because of
// others, or if the server of the connection is read-only.
func (l *Ledger) exec(ctx context.Context, query string, args ...any) error {
	query = l.dialect.sql(query)
	err := contention.Retry(ctx, func() error {
		return l.pool.Do(ctx, func(conn *sql.Conn) error {
			_, err := conn.ExecContext(ctx, query, args...)
			return err
		})
	})
	if err != nil {
		return ledgerError(err)
	}
	return nil
}

func ledgerError(err error) error { return fmt.Errorf("publish: ledger: %w", err) }

// pause reports false if ctx ended before d had passed.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var _ reconcile.Checkpoints = (*Ledger)(nil)

// ClaimCheckpoint implements [reconcile.Checkpoints].
func (l *Ledger) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	var state []byte
	err := l.exec(ctx, `INSERT INTO dispensary_ledger_checkpoints (name, holder, held_until) VALUES (?, '', 0) `+fmt.Sprintf(l.dialect.ignore, "name"), name)
	if err == nil {
		err = l.exec(ctx, `UPDATE dispensary_ledger_checkpoints SET holder = ?, held_until = {now} + ? WHERE name = ? AND (holder = ? OR held_until <= {now})`,
			holder, ttl.Microseconds(), name, holder)
	}
	if err == nil {
		state, err = l.held(ctx, name, holder)
	}
	if err != nil && ctx.Err() != nil {
		// The claim may have been made, and the caller will not release it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = l.ReleaseCheckpoint(ctx, name, holder)
	}
	return state, err
}

// SaveCheckpoint implements [reconcile.Checkpoints].
func (l *Ledger) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	err := l.exec(ctx, `UPDATE dispensary_ledger_checkpoints SET state = ?, held_until = {now} + ? WHERE name = ? AND holder = ? AND held_until > {now}`,
		state, ttl.Microseconds(), name, holder)
	if err == nil {
		_, err = l.held(ctx, name, holder)
	}
	return err
}

// ReleaseCheckpoint implements [reconcile.Checkpoints].
func (l *Ledger) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	return l.exec(ctx, `UPDATE dispensary_ledger_checkpoints SET held_until = 0 WHERE name = ? AND holder = ?`, name, holder)
}

// held returns the state if holder holds the checkpoint. How many rows an UPDATE has
// changed would not tell: MySQL does not count what it finds as it is to be.
func (l *Ledger) held(ctx context.Context, name, holder string) (state []byte, err error) {
	query := l.dialect.sql(`SELECT state FROM dispensary_ledger_checkpoints WHERE name = ? AND holder = ? AND held_until > {now}`)
	err = l.pool.Do(ctx, func(conn *sql.Conn) error { return conn.QueryRowContext(ctx, query, name, holder).Scan(&state) })
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, reconcile.ErrCheckpointHeld
	case err != nil:
		return nil, ledgerError(err)
	}
	return state, nil
}
