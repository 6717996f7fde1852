package sqlinbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Open opens the inbox in a file, and starts its workers, which Close ends. It creates a missing
// file, readable for its owner only, and missing tables. It fails with [ErrInUse],
// [ErrUnsafePath] and a [*SchemaError].
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

// New opens the inbox in a SQLite database that the program has open, of any
// driver, and starts its workers. [Migrate] comes first, and [DSN] is what to open
// it with. It fails with [ErrInUse], [ErrUnsafePath] and a [*SchemaError], and for a database
// in memory.
//
// The inbox takes one connection for itself, so the pool needs two at least, and
// the file write-ahead logging, which is switched on for good. The program
// closes db after the inbox.
func New(db *sql.DB, c Config) (*Inbox, error) {
	if db.Stats().MaxOpenConnections == 1 {
		return nil, &api.ArgumentError{Field: "db", Reason: "has a pool of one connection, which the inbox needs for itself"}
	}
	return open(db, "", c, nil)
}

// open locks the database, prepares it, and starts everything. path is the database as the
// program named it, or "".
func open(db *sql.DB, path string, c Config, migrate func(context.Context, *sql.DB) error) (_ *Inbox, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	worker, err := engine.NewWorker(c.Work)
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

// prepare brings the database up to date, and starts everything.
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
	room, err := newRoom(ctx, conn, i.files.resolved, i.config, i.worker.Work().Logger)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	i.writer = newWriter(conn, i.files, hooks{i.fill, i.committed, room.check})
	if err := i.start(); err != nil {
		i.writer.Close()
		return errors.Join(err, i.writer.tx.close(), conn.Close())
	}
	i.release = []func() error{i.writer.tx.close, func() error { return i.files.close(conn) }}
	return nil
}

func newInbox(c Config, worker *engine.Worker, db *sql.DB) *Inbox {
	inbox := &Inbox{
		config: c,
		worker: worker,
		db:     db,
		life:   engine.NewLifecycle(),
		wake:   make(chan struct{}, 1),
		slots:  make(chan struct{}, worker.Work().Workers),
	}
	inbox.life.Patience = cmp.Or(c.patience, inbox.life.Patience)
	for range cap(inbox.slots) {
		inbox.slots <- struct{}{}
	}
	return inbox
}

// start takes back what the process before was handling, which it cannot be handling
// any more since this process has the lock, and begins to work.
func (i *Inbox) start() error {
	err := i.writer.do(i.life.Context(), func(t *tx) error {
		i.lastNow = maxTime // whatever it was for the process before
		return errors.Join(i.reap(t, maxTime), i.followClock(t, i.now()))
	})
	if err != nil {
		return err
	}
	i.loops.Go(i.dispatch)
	i.loops.Go(i.retain)
	return nil
}

// writingConn sets up the connection of the writer, and makes sure that what it
// commits is on disk.
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
		"PRAGMA fullfsync = 1", // on macOS a sync is none without it
		"PRAGMA checkpoint_fullfsync = 1",
		"PRAGMA journal_size_limit = 8388608", // what a burst leaves of the log
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
		return nil, fmt.Errorf("sqlinbox: the database refuses to be durable: journal_mode %s, synchronous %d", mode, synchronous)
	}
	return conn, checkSchema(ctx, conn)
}

// Close implements [engine.Engine]. It returns once everything has ended, at the
// latest a few seconds after the end of ctx: with the error of ctx if the database
// or a function of [InTransaction] still holds the writer by then. The rest ends
// by itself then, the lock of the file included, and can be waited for by closing
// again. What was acknowledged is on the disk in any case.
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
