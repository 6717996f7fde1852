package sqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// busyTimeout limits the writer's wait for other writers of the file to 10 seconds.
const busyTimeout = "PRAGMA busy_timeout = 10000"

// write is a part of a transaction. The writer calls do again after a rollback.
type write struct {
	do func(*tx) error

	lazy  bool // needs no sync
	bytes int  // size of the body of an accepted event
}

// writer writes in the goroutine of its batcher.
type writer struct {
	*inboxkit.Batcher[*write]
	tx    *tx
	files *files
	lazy  bool // transactions are not synced
	hooks hooks
}

// hooks connect the writer to its inbox.
type hooks struct {
	fill      func(*tx) error // claims events for vacant handlers
	committed func(*tx)
}

func newWriter(conn *sql.Conn, files *files, hooks hooks) *writer {
	w := &writer{hooks: hooks, files: files, tx: &tx{conn: conn, prepared: map[string]*sql.Stmt{}}}
	w.Batcher = inboxkit.NewBatcher(inboxkit.BatcherConfig[*write]{
		Commit: w.commit,
		Size:   func(job *write) int { return job.bytes },
	})
	return w
}

// do writes and waits for the sync. If ctx ends first, the write may still happen.
func (w *writer) do(ctx context.Context, do func(*tx) error) error {
	return w.DoUrgent(ctx, &write{do: do})
}

// doLazily writes without a sync: a power failure may undo the write, a crash of the process
// does not. The next sync includes it.
func (w *writer) doLazily(ctx context.Context, do func(*tx) error) error {
	return w.DoUrgent(ctx, &write{do: do, lazy: true})
}

// valueOf writes with do or doLazily, and returns the value of write, or the zero value if ctx
// ends first.
func valueOf[T any](ctx context.Context, do func(context.Context, func(*tx) error) error, write func(*tx) (T, error)) (T, error) {
	var value, none T // the writer goroutine owns value until do returns nil
	err := do(ctx, func(t *tx) (err error) {
		value, err = write(t)
		return err
	})
	if err != nil {
		return none, err
	}
	return value, nil
}

// commit writes a batch in one transaction. If it fails, commit tries each write alone.
func (w *writer) commit(batch []*inboxkit.Write[*write]) {
	jobs := make([]*write, len(batch))
	for n, job := range batch {
		jobs[n] = job.Value
	}
	err := w.transact(jobs, true)
	apart := err != nil && (len(batch) > 1 || w.tx.vacant != nil)
	for _, job := range batch {
		if apart {
			err = w.transact([]*write{job.Value}, false)
		}
		job.Done(err)
	}
}

// transact writes a batch in one transaction, and claims events for vacant handlers if fill is
// true.
func (w *writer) transact(batch []*write, fill bool) (err error) {
	if err := w.files.failed(); err != nil {
		return err
	}
	if err := w.sync(batch); err != nil {
		return err
	}
	w.tx.begin()
	if err := w.tx.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		// After some errors, SQLite has rolled back already.
		if caught := recover(); caught != nil {
			err = fmt.Errorf("sqlinbox: write panicked with a value of type %T", caught)
		}
		if err != nil {
			_ = w.tx.exec("ROLLBACK")
		}
	}()
	for _, job := range batch {
		if err := job.do(w.tx); err != nil {
			return err
		}
	}
	if fill && len(w.tx.vacant) > 0 {
		if err := w.hooks.fill(w.tx); err != nil {
			return err
		}
	}
	// The check before the commit prevents a write to the log of another database. Only the
	// check after it proves that the paths name the files of the commit.
	if err := w.files.check(); err != nil {
		return err
	}
	if err := w.tx.exec("COMMIT"); err != nil {
		return err
	}
	if err := w.files.check(); err != nil {
		return err
	}
	w.hooks.committed(w.tx)
	return nil
}

// sync enables syncing for the transaction of a batch, unless every write is lazy. SQLite syncs
// the whole log, so a synced transaction includes earlier ones.
func (w *writer) sync(batch []*write) error {
	lazy := !slices.ContainsFunc(batch, func(job *write) bool { return !job.lazy })
	if lazy == w.lazy {
		return nil
	}
	level := "PRAGMA synchronous = FULL"
	if lazy {
		level = "PRAGMA synchronous = NORMAL"
	}
	// Not prepared, because this statement takes effect once, when it is prepared.
	if _, err := w.tx.conn.ExecContext(context.Background(), level); err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	w.lazy = lazy
	return nil
}

// tx is the open transaction of the writer.
type tx struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt

	ready  bool      // an event may be due
	vacant []**claim // the next events of vacant handlers
	now    int64     // time of handOut
}

// begin resets the state of the last transaction.
func (t *tx) begin() { t.ready, t.vacant, t.now = false, nil, 0 }

// close closes the prepared statements. Otherwise SQLite would keep a closed connection and
// its files open.
func (t *tx) close() (err error) {
	for _, s := range t.prepared {
		err = errors.Join(err, s.Close())
	}
	return err
}

// prepare returns a cached prepared statement. It uses the background context, because
// watching a context costs more than most statements.
func (t *tx) prepare(query string) (*sql.Stmt, error) {
	if s := t.prepared[query]; s != nil {
		return s, nil
	}
	s, err := t.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	t.prepared[query] = s
	return s, nil
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.changed(query, args...)
	return err
}

// changed runs a statement and returns the number of changed rows.
func (t *tx) changed(query string, args ...any) (int64, error) {
	s, err := t.prepare(query)
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, fmt.Errorf("sqlinbox: %w", err)
	}
	return result.RowsAffected()
}

// first scans the first row, if any.
func (t *tx) first(query string, args []any, into ...any) (found bool, err error) {
	err = t.each(query, args, func(row *sql.Rows) error {
		if found {
			return nil
		}
		found = true
		return row.Scan(into...)
	})
	return found, err
}

// each calls scan for every row.
func (t *tx) each(query string, args []any, scan func(*sql.Rows) error) error {
	s, err := t.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), args...)
	if err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	return eachRow(rows, scan)
}
