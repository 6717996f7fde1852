package sqlinbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// Open opens the inbox in a file and starts its workers. Close stops them. It creates a
// missing file, readable for its owner only, and missing tables. Errors include [ErrInUse],
// [api.ErrUnsafePath] and a [*api.SchemaError].
func Open(path string, c Config) (*Inbox, error) {
	name, err := DSN(path)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	inbox, err := open(db, path, c, Migrate)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	inbox.release = append(inbox.release, db.Close)
	return inbox, nil
}

// New opens the inbox in an open SQLite database of any driver, and starts its workers. Open
// the database with the name from [DSN], and call [Migrate] first. Errors include [ErrInUse],
// [api.ErrUnsafePath] and a [*api.SchemaError]. New rejects a database in memory.
//
// The inbox keeps one connection, so the pool needs at least two. It enables write-ahead
// logging permanently. Close db after the inbox.
func New(db *sql.DB, c Config) (*Inbox, error) {
	if db.Stats().MaxOpenConnections == 1 {
		return nil, &api.ArgumentError{Field: "db", Reason: "has a pool of one connection: allow two, because the inbox keeps one"}
	}
	return open(db, "", c, nil)
}

// open locks the database and starts the inbox. path is the argument of Open, or "".
func open(db *sql.DB, path string, c Config, migrate func(context.Context, *sql.DB) error) (_ *Inbox, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	worker, err := inboxkit.NewWorker(c.Work)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	inbox := newInbox(c, worker, db)
	inbox.files, err = lockFiles(ctx, db, path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = inbox.files.unlock()
		}
	}()
	if err = inbox.prepare(ctx, migrate); err != nil {
		return nil, err
	}
	inbox.release = append(inbox.release, inbox.files.unlock)
	return inbox, nil
}

// prepare migrates the database and starts the inbox.
func (i *Inbox) prepare(ctx context.Context, migrate func(context.Context, *sql.DB) error) error {
	if migrate != nil {
		if err := migrate(ctx, i.db); err != nil {
			return err
		}
	}
	conn, err := writingConn(ctx, i.db)
	if err != nil {
		return err
	}
	if err := i.files.watch(i.replaced); err != nil {
		return errors.Join(err, conn.Close())
	}
	i.writer = newWriter(conn, i.files, hooks{i.dispatcher.fill, i.dispatcher.committed})
	i.dispatcher.writer = i.writer
	i.release = []func() error{i.writer.tx.close, func() error { return i.files.close(conn) }}
	i.loops.Go(i.dispatcher.run)
	i.loops.Go(i.retain)
	return nil
}

func newInbox(c Config, worker *inboxkit.Worker, db *sql.DB) *Inbox {
	inbox := &Inbox{config: c, worker: worker, db: db, life: inboxkit.NewLifecycle()}
	inbox.life.Patience = cmp.Or(c.patience, inbox.life.Patience)
	inbox.dispatcher = newDispatcher(&inbox.config, worker, inbox.life)
	return inbox
}

// writingConn returns the connection of the writer. Its commits are synced.
func writingConn(ctx context.Context, db *sql.DB) (_ *sql.Conn, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	for _, pragma := range []string{
		busyTimeout,
		"PRAGMA journal_mode = WAL",
		"PRAGMA synchronous = FULL",
		"PRAGMA fullfsync = 1", // macOS does not sync without it
		"PRAGMA checkpoint_fullfsync = 1",
		"PRAGMA journal_size_limit = 8388608", // maximum size of the log after a burst
	} {
		if _, err := conn.ExecContext(ctx, pragma); err != nil {
			return nil, fmt.Errorf("sqlinbox: %w", err)
		}
	}
	var mode string
	var synchronous int
	if err := errors.Join(
		conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode),
		conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous),
	); err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	if mode != "wal" || synchronous < 2 {
		return nil, fmt.Errorf("sqlinbox: database is not durable: journal_mode %s, synchronous %d", mode, synchronous)
	}
	return conn, checkSchema(ctx, conn)
}

// Close implements [engine.Engine]. It returns within a few seconds after the end of ctx. If
// the database or a function of [InTransaction] still blocks the writer by then, it returns
// the error of ctx, and the inbox closes in the background. Call Close again to wait for it.
func (i *Inbox) Close(ctx context.Context) error {
	return i.life.Close(ctx, i.loops.Wait, func() (err error) { // the dispatcher starts handlers
		i.loops.Wait()
		i.writer.Close()
		for _, release := range i.release {
			err = errors.Join(err, release())
		}
		return err
	})
}

// DSN returns the data source name of a file that your program shares with its inbox (see
// [New]). It is for the driver modernc.org/sqlite. If the file does not exist, DSN creates it,
// readable for its owner only, like the files that SQLite creates beside it.
//
//	dsn, err := sqlinbox.DSN("program.db")
//	…
//	db, err := sql.Open("sqlite", dsn)
//
// With this name, your transactions take the write lock when they begin, and wait up to 10
// seconds for the transactions of the inbox. Otherwise they would fail with SQLITE_BUSY,
// because SQLite has one writer. A name from sqlstore.OpenSQLite only waits for a moment, so
// do not write with it. Keep transactions short: accepts wait for them, and fail after
// [webhook.HandlerConfig.AcceptTimeout].
//
// The error is an [*api.ArgumentError] if path is a URI or ":memory:".
func DSN(path string) (string, error) {
	if err := sqlitefile.CheckFile("sqlinbox.DSN path", path); err != nil {
		return "", err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sqlinbox: %w", err)
	}
	if err := sqlitefile.CheckPath(path); err != nil {
		return "", fmt.Errorf("sqlinbox: %w", err)
	}
	if err := makePrivate(path); err != nil {
		return "", fmt.Errorf("sqlinbox: %w", err)
	}
	name := url.URL{
		Scheme: "file", Path: filepath.ToSlash(path),
		RawQuery: "_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_txlock=immediate",
	}
	return name.String(), nil
}

// makePrivate creates the file if it does not exist, because SQLite would create it, and the
// files beside it, readable for everyone. It does not open an existing file, because closing
// it would end the POSIX locks of this process.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}
