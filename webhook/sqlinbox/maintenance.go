package sqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/dispensary-go/dispensary/internal/sqlitefile"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Maintenance lists, replays and discards events of an inbox for an operator's tool, also while
// a process has the inbox open. It neither accepts nor handles events and reads no bodies, so it
// needs no keys. The process handles a replayed event within a minute, or after its next start.
type Maintenance struct {
	inbox *Inbox
	conn  *sql.Conn
}

// OpenMaintenance opens the inbox in a file, which must exist. It creates nothing: it fails with
// a [*SchemaError] if a table or a column is missing, and with [ErrUnsafePath].
func OpenMaintenance(path string) (_ *Maintenance, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	if err := sqlitefile.CheckPath(path); err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "mode=rw&_pragma=busy_timeout(10000)&_txlock=immediate"}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	ctx := context.Background()
	if err := looksLikeInbox(ctx, db); err != nil { // before anything of the file is set
		return nil, err
	}
	conn, err := writingConn(ctx, db)
	if err != nil {
		return nil, err
	}
	files := &files{path: path}
	if err := files.watch(nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	i := &Inbox{config: Config{now: time.Now}, db: db, files: files, life: engine.NewLifecycle()}
	i.writer = newWriter(conn, files, hooks{fill: func(*tx) error { return nil }, committed: func(*tx) {}}) // it accepts no events
	return &Maintenance{inbox: i, conn: conn}, nil
}

// looksLikeInbox checks the tables of a file.
func looksLikeInbox(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	return errors.Join(checkSchema(ctx, conn), conn.Close())
}

// List is [engine.Engine].List.
func (m *Maintenance) List(ctx context.Context, f engine.Filter, after engine.Position, limit int) ([]engine.Event, error) {
	return m.inbox.List(ctx, f, after, limit)
}

// Count is [engine.Engine].Count.
func (m *Maintenance) Count(ctx context.Context, f engine.Filter, most int) (engine.Counts, error) {
	return m.inbox.Count(ctx, f, most)
}

// Replay is [engine.Engine].Replay.
func (m *Maintenance) Replay(ctx context.Context, f engine.Filter) (int, error) {
	return m.inbox.Replay(ctx, f)
}

// Discard is [engine.Engine].Discard.
func (m *Maintenance) Discard(ctx context.Context, f engine.Filter) (int, error) {
	return m.inbox.Discard(ctx, f)
}

// Stats is [engine.Engine].Stats.
func (m *Maintenance) Stats(ctx context.Context) (engine.Stats, error) { return m.inbox.Stats(ctx) }

// ReadCheckpoint implements [reconcile.CheckpointReader].
func (m *Maintenance) ReadCheckpoint(ctx context.Context, name string) ([]byte, error) {
	return m.inbox.ReadCheckpoint(ctx, name)
}

// Close closes the file. Call it once, after all other calls.
func (m *Maintenance) Close(context.Context) error {
	m.inbox.writer.Close()
	return errors.Join(m.inbox.writer.tx.close(), m.inbox.files.close(m.conn), m.inbox.db.Close())
}

// Format prints the type only.
func (m *Maintenance) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, "sqlinbox.Maintenance") }
