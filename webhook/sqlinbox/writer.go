package sqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// What shares a transaction at most: enough that a sync is shared by everyone who
// waits, little enough that nobody waits long.
const (
	maxBatch = 256     // writes
	maxBytes = 1 << 20 // of bodies, beyond the first
)

// busyTimeout has the writer wait for other writers of the file.
const busyTimeout = "PRAGMA busy_timeout = 10000"

// write is something that is done in a transaction. It may be done again, after
// it was rolled back, so it must set what it returns anew.
type write struct {
	ctx  context.Context // a write whose caller has left is not done
	do   func(*tx) error
	done chan error // buffered

	lazy  bool // need not be on disk when it is done
	idle  bool // can wait until nothing else is to be done
	alone bool // is not done in a transaction

	accept bool      // takes in an event,
	bytes  int       // so long,
	since  time.Time // that has come then

	outcome bool          // notes what became of an event
	took    time.Duration // since that was given out
}

// writer is the one goroutine that writes. It does everything that waits in one
// transaction: what costs is the sync at its end, and that is shared.
type writer struct {
	tx      *tx
	lazy    bool // transactions are not synced at present
	pace    pace
	hooks   hooks
	writes  chan *write
	accepts chan *write // done as [pace] has it
	idle    chan *write // done when nothing else is to be

	stop    chan struct{} // closed to end it once nothing waits
	stopped chan struct{} // closed when it has ended
	once    sync.Once
}

// hooks are what an inbox has to do with every transaction.
type hooks struct {
	fill      func(*tx) error // gives events to the handlers that are vacant now
	committed func(*tx)
	spend     func(*tx) bool // makes room on a full disk, if it can
}

func newWriter(conn *sql.Conn, hooks hooks) *writer {
	w := &writer{
		hooks:   hooks,
		tx:      &tx{conn: conn, prepared: map[string]*sql.Stmt{}},
		writes:  make(chan *write, 4*maxBatch),
		accepts: make(chan *write, 4*maxBatch),
		idle:    make(chan *write),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	go w.run()
	return w
}

// do has a write done and waits until it is on disk. When ctx ends first the
// write may be done all the same.
func (w *writer) do(ctx context.Context, do func(*tx) error) error {
	return w.await(&write{ctx: ctx, do: do, done: make(chan error, 1)})
}

// doLazily has a write done that the loss of power may undo, though not the end
// of the process. It is on disk with the next one that has to be.
func (w *writer) doLazily(ctx context.Context, do func(*tx) error) error {
	return w.await(&write{ctx: ctx, do: do, lazy: true, done: make(chan error, 1)})
}

// doFor has a write done, which may not be given up, that notes the outcome of what
// was claimed.
func (w *writer) doFor(c *claim, do func(*tx) error) error {
	return w.await(&write{ctx: context.Background(), do: do, outcome: true, took: time.Since(c.given), done: make(chan error, 1)})
}

// doIdly is doLazily for what can wait until nothing else is to be done.
func (w *writer) doIdly(ctx context.Context, do func(*tx) error) error {
	return w.await(&write{ctx: ctx, do: do, lazy: true, idle: true, done: make(chan error, 1)})
}

// checkpoint brings the log into the file, as far as nobody reads an older state of
// it, which also cuts off what the file has given back.
func (w *writer) checkpoint() error { return w.alone("PRAGMA wal_checkpoint(PASSIVE)") }

// truncate does the same, and gives the log's own room back if nobody reads at all.
func (w *writer) truncate() error {
	return errors.Join(w.alone("PRAGMA busy_timeout = 100", "PRAGMA wal_checkpoint(TRUNCATE)"), w.alone(busyTimeout))
}

// alone runs statements outside of any transaction, when nothing else is to be done.
func (w *writer) alone(statements ...string) error {
	return w.await(&write{ctx: context.Background(), alone: true, idle: true, done: make(chan error, 1), do: func(t *tx) error {
		for _, statement := range statements {
			// Not prepared, as some of these do their work then.
			if _, err := t.conn.ExecContext(context.Background(), statement); err != nil {
				return fmt.Errorf("sqlinbox: %w", err)
			}
		}
		return nil
	}})
}

// valueOf has a write done with do or doLazily, and returns what it returned. When
// ctx ends first that is the zero value, whatever becomes of the write.
func valueOf[T any](ctx context.Context, do func(context.Context, func(*tx) error) error, write func(*tx) (T, error)) (T, error) {
	var value, none T // value is the writer's as long as it has not said that it is done
	err := do(ctx, func(t *tx) (err error) {
		value, err = write(t)
		return err
	})
	if err != nil {
		return none, err
	}
	return value, nil
}

// post has a write done lazily, after everything that was asked for before, and
// does not wait for it.
func (w *writer) post(do func(*tx) error) {
	job := &write{ctx: context.Background(), do: do, lazy: true, done: make(chan error, 1)}
	select {
	case w.writes <- job:
	default: // too much is waiting
		go func() { _ = w.await(job) }()
	}
}

func (w *writer) await(job *write) error {
	ctx := job.ctx
	select {
	case <-w.stop: // checked alone first: select chooses at random
		return webhook.ErrInboxClosed
	default:
	}
	queue := w.writes
	switch {
	case job.idle:
		queue = w.idle
	case job.accept:
		queue, job.since = w.accepts, time.Now()
	}
	select {
	case queue <- job:
	case <-w.stop:
		return webhook.ErrInboxClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-job.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-w.stopped:
		select {
		case err := <-job.done:
			return err
		default:
			return webhook.ErrInboxClosed // it came when the last had been done
		}
	}
}

// close ends the writer after what waits has been done.
func (w *writer) close() {
	w.once.Do(func() { close(w.stop) })
	<-w.stopped
}

func (w *writer) run() {
	defer close(w.stopped)
	for {
		select {
		case first := <-w.writes:
			w.commit(w.gather(first))
		case first := <-w.accepts:
			w.commit(w.gather(first))
		default:
			select {
			case first := <-w.writes:
				w.commit(w.gather(first))
			case first := <-w.accepts:
				w.commit(w.gather(first))
			case job := <-w.idle:
				w.commit([]*write{job})
			case <-w.stop:
				w.finish()
				return
			}
		}
	}
}

// finish does what waits.
func (w *writer) finish() {
	for {
		select {
		case first := <-w.writes:
			w.commit(w.gather(first))
		case first := <-w.accepts:
			w.commit(w.gather(first))
		default:
			return
		}
	}
}

// commit does a batch in one transaction. If anything fails, nothing is done,
// and each write is tried alone: what is wrong with one is no other's fault.
func (w *writer) commit(batch []*write) {
	live := batch[:0]
	for _, job := range batch {
		if err := job.ctx.Err(); err != nil {
			job.done <- err
			continue
		}
		live = append(live, job)
	}
	err := w.transact(live, true)
	if err != nil && (len(live) > 1 || w.tx.vacant != nil || isFull(err)) {
		for _, job := range live {
			job.done <- w.transactOne(job)
		}
		return
	}
	for _, job := range live {
		job.done <- err
	}
}

// transactOne does a write in a transaction of its own. If the disk is full, all but
// accepts have the reserve.
func (w *writer) transactOne(job *write) error {
	err := w.transact([]*write{job}, false)
	if isFull(err) && !job.accept && !job.idle && w.hooks.spend(w.tx) {
		err = w.transact([]*write{job}, false)
	}
	return err
}

// transact does a batch in a transaction, and then, if asked to, gives events to
// the handlers that it makes vacant.
func (w *writer) transact(batch []*write, fill bool) (err error) {
	if len(batch) == 0 {
		return nil
	}
	if batch[0].alone {
		return batch[0].do(w.tx)
	}
	if err := w.sync(batch); err != nil {
		return err
	}
	w.tx.begin()
	if err := w.tx.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		// After some errors SQLite has rolled back already; then there is
		// nothing to do and nothing to report.
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
	if err := w.tx.exec("COMMIT"); err != nil {
		return err
	}
	now := time.Now()
	w.pace.gaveOut(len(w.tx.given))
	for _, row := range w.tx.given {
		row.given = now
	}
	w.hooks.committed(w.tx)
	return nil
}

// sync has the transaction of a batch synced unless all of it is lazy. SQLite
// syncs the whole log at once, so that a transaction which is synced takes those
// before it along.
func (w *writer) sync(batch []*write) error {
	lazy := !slices.ContainsFunc(batch, func(job *write) bool { return !job.lazy })
	if lazy == w.lazy {
		return nil
	}
	level := "PRAGMA synchronous = FULL"
	if lazy {
		level = "PRAGMA synchronous = NORMAL"
	}
	// Not prepared: the statement does its work when it is prepared, once.
	if _, err := w.tx.conn.ExecContext(context.Background(), level); err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	w.lazy = lazy
	return nil
}
