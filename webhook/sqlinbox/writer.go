package sqlinbox

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

// busyTimeout has the writer wait for other writers of the file.
const busyTimeout = "PRAGMA busy_timeout = 10000"

// write is something that is done in a transaction. It may be done again, after it
// was rolled back, so it must set what it returns anew.
type write struct {
	do func(*tx) error

	lazy bool // need not be on disk when it is done

	accept bool // stores an event
	bytes  int  // of its body

	outcome bool          // records what became of an event
	took    time.Duration // since it was claimed
}

// writer is the one goroutine that writes, that of its batcher.
type writer struct {
	*engine.Batcher[*write]
	tx      *tx
	files   *files
	lazy    bool // transactions are not synced at present
	pace    pace
	counted int // urgent writes of the batch that pace knows of
	hooks   hooks
}

// hooks are what an inbox has to do with every transaction.
type hooks struct {
	fill      func(*tx) error // gives events to the handlers that are free now
	committed func(*tx)
	room      func(t *tx, bytes int) error // checks the room for accepts
}

func newWriter(conn *sql.Conn, files *files, hooks hooks) *writer {
	w := &writer{hooks: hooks, files: files, tx: &tx{conn: conn, prepared: map[string]*sql.Stmt{}}}
	w.Batcher = engine.NewBatcher(engine.BatcherConfig[*write]{
		Commit: w.commit,
		Size:   func(job *write) int { return job.bytes },
		Wait: func(urgent []*engine.Write[*write]) time.Duration {
			w.count(urgent)
			return w.pace.patience(time.Now())
		},
		Limit: func(urgent []*engine.Write[*write], waited time.Duration) int {
			w.count(urgent)
			return w.pace.limit(outcomes(urgent), waited)
		},
	})
	return w
}

// count tells pace of the outcomes that came since it was last called.
func (w *writer) count(urgent []*engine.Write[*write]) {
	for ; w.counted < len(urgent); w.counted++ {
		if job := urgent[w.counted].Value; job.outcome {
			w.pace.cameBack(job.took)
		}
	}
}

func outcomes(batch []*engine.Write[*write]) (n int) {
	for _, job := range batch {
		if job.Value.outcome {
			n++
		}
	}
	return n
}

// do has a write done and waits until it is on disk. When ctx ends first the write
// may be done all the same.
func (w *writer) do(ctx context.Context, do func(*tx) error) error {
	return w.DoUrgent(ctx, &write{do: do})
}

// doLazily has a write done that the loss of power may undo, though not the end of
// the process. It is on disk with the next one that has to be.
func (w *writer) doLazily(ctx context.Context, do func(*tx) error) error {
	return w.DoUrgent(ctx, &write{do: do, lazy: true})
}

// doFor has a write done, which may not be given up, that records the outcome of
// what was claimed.
func (w *writer) doFor(c *claim, do func(*tx) error) error {
	return w.DoUrgent(context.Background(), &write{do: do, outcome: true, took: time.Since(c.claimedAt)})
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

// commit does a batch in one transaction. If anything fails, nothing is done, and
// each write is tried alone: what is wrong with one does not harm the others.
func (w *writer) commit(batch []*engine.Write[*write]) {
	w.counted = 0
	batch = w.withRoom(batch)
	if len(batch) == 0 {
		return
	}
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

// withRoom rejects the accepts of a batch if there is no room for them, and returns the
// other writes.
func (w *writer) withRoom(batch []*engine.Write[*write]) []*engine.Write[*write] {
	bytes, accepts := 0, false
	for _, job := range batch {
		bytes, accepts = bytes+job.Value.bytes, accepts || job.Value.accept
	}
	if !accepts {
		return batch
	}
	err := w.hooks.room(w.tx, bytes)
	if err == nil {
		return batch
	}
	return slices.DeleteFunc(batch, func(job *engine.Write[*write]) bool {
		if job.Value.accept {
			job.Done(err)
		}
		return job.Value.accept
	})
}

// transact does a batch in a transaction, and then, if asked to, gives events to
// the handlers that are free by it.
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
	// Before the commit, because it may go into the log beside another database. After it,
	// because only then is it certain that the commit is in the files that the paths name.
	if err := w.files.check(); err != nil {
		return err
	}
	if err := w.tx.exec("COMMIT"); err != nil {
		return err
	}
	if err := w.files.check(); err != nil {
		return err
	}
	now := time.Now()
	w.pace.claimed(len(w.tx.claims))
	for _, c := range w.tx.claims {
		c.claimedAt = now
	}
	w.hooks.committed(w.tx)
	return nil
}

// sync has the transaction of a batch synced unless all of it is lazy. SQLite syncs
// the whole log at once, so that a transaction which is synced takes those before it
// along.
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
