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
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// Reader reads the numbers and checkpoints of an inbox, even while a process has the inbox
// open. It changes nothing and reads no bodies, so it needs no keys.
type Reader struct {
	inbox *Inbox
	conn  *sql.Conn // keeps the log, like a writer's connection
}

// OpenReader opens the inbox in an existing file. It creates nothing. Errors include a
// [*api.SchemaError] if the tables are missing or have another version, and [api.ErrUnsafePath].
func OpenReader(path string) (_ *Reader, err error) {
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
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "mode=rw&_pragma=busy_timeout(10000)"}
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
	if err := looksLikeInbox(ctx, db); err != nil { // before any setting of the file
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	files := &files{path: path}
	if err := files.watch(nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Reader{&Inbox{config: Config{now: time.Now}, db: db, files: files, life: inboxkit.NewLifecycle()}, conn}, nil
}

// looksLikeInbox checks the tables of a file.
func looksLikeInbox(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	return errors.Join(checkSchema(ctx, conn), conn.Close())
}

// Stats implements Stats of [engine.Engine].
func (r *Reader) Stats(ctx context.Context) (engine.Stats, error) { return r.inbox.Stats(ctx) }

// ReadCheckpoint returns the last saved state, or nil. It claims nothing.
func (r *Reader) ReadCheckpoint(ctx context.Context, name string) ([]byte, error) {
	return r.inbox.ReadCheckpoint(ctx, name)
}

// Close closes the file. Call it once, after all other calls.
func (r *Reader) Close(context.Context) error {
	return errors.Join(r.inbox.files.close(r.conn), r.inbox.db.Close())
}

// Format prints the type only.
func (r *Reader) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, "sqlinbox.Reader") }
