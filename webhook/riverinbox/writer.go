package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// transactionTimeout ends a transaction that the database does not.
const transactionTimeout = 30 * time.Second

// lockPatience is how long the transaction that all accepts share waits for a key
// which another transaction has inserted and not committed. Another replica has usually
// committed by then, unless it was paused.
const lockPatience = 20 * time.Millisecond

// write is an accept that waits.
type write = engine.Write[*newRow]

// writer accepts. Its batcher stores everything that waits in one transaction. What
// cannot be stored together is left to another goroutine, see [isolation].
type writer struct {
	inbox     *Inbox
	batcher   *engine.Batcher[*newRow]
	isolation *isolation
}

func newWriter(i *Inbox) *writer {
	w := &writer{inbox: i}
	w.isolation = newIsolation(w)
	w.batcher = engine.NewBatcher(engine.BatcherConfig[*newRow]{
		Commit: w.commit,
		Size:   func(row *newRow) int { return len(row.body) },
		Drain:  w.isolation.close,
	})
	return w
}

// store has a row stored and waits until that is committed. When ctx ends first the
// row may be stored all the same.
func (w *writer) store(ctx context.Context, row *newRow) (duplicate bool, err error) {
	if err := w.batcher.Do(ctx, row); err != nil {
		return false, err
	}
	return row.duplicate, nil
}

// close ends the writer after what waits has been stored. What waits for another
// transaction is not: see [isolation].
func (w *writer) close() { w.batcher.Close() }

// commit stores a batch in one transaction. If the database refuses it, it is left
// to be divided: what is wrong with one does not harm the others.
func (w *writer) commit(batch []*write) {
	err := w.transact(batch, lockPatience)
	if divisible(batch, err) {
		w.isolation.take(batch)
		return
	}
	answer(batch, err)
}

func answer[T any](batch []*engine.Write[T], err error) {
	for _, job := range batch {
		job.Done(err)
	}
}

// divisible reports that a batch failed by something that the database has against
// one of its rows, perhaps.
func divisible(batch []*write, err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (len(batch) > 1 || contended(err))
}

// contended reports that a key is in another transaction.
func contended(err error) bool {
	const lockNotAvailable = "55P03"
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == lockNotAvailable
}

// transact stores a batch. Where it fails before the commit, because a connection
// has died or two replicas blocked each other, it tries once more; what a commit
// without an answer has done is not known.
func (w *writer) transact(batch []*write, patience time.Duration) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
	defer cancel()
	committing, err := w.try(ctx, batch, patience)
	if err != nil && !committing && !contended(err) {
		_, err = w.try(ctx, batch, patience)
	}
	return err
}

func (w *writer) try(ctx context.Context, batch []*write, patience time.Duration) (committing bool, err error) {
	// A plan for the arrays of each batch is no better, and takes longer to make than to run.
	begin := fmt.Sprintf("BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL lock_timeout = %d", patience.Milliseconds())
	tx, err := w.inbox.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return false, fmt.Errorf("riverinbox: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }() // nothing to do after a commit
	if err := w.insert(ctx, tx, batch); err != nil {
		return false, err
	}
	if err := tx.Commit(ctx); err != nil {
		return true, fmt.Errorf("riverinbox: %w", err)
	}
	return true, nil
}

// insert stores the rows of a batch. Of several with one key the first is new.
func (w *writer) insert(ctx context.Context, tx pgx.Tx, batch []*write) error {
	rows := make([]*newRow, len(batch))
	for n, job := range batch {
		rows[n] = job.Value
	}
	fresh, err := w.inbox.insert(ctx, tx, rows)
	for _, job := range batch {
		job.Value.duplicate = !fresh[job.Value.key]
		delete(fresh, job.Value.key)
	}
	return err
}

// isolation is the goroutine that accepts what could not be accepted together. It
// finds out which events are the reason, and stores the others. An event whose key
// is in another transaction is tried again until that ends, or its caller gives up;
// only its caller waits for it.
type isolation struct {
	writer *writer

	mu    sync.Mutex
	taken []*write

	wake    chan struct{}
	stop    chan struct{}
	stopped chan struct{}
}

func newIsolation(w *writer) *isolation {
	i := &isolation{writer: w, wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
	go i.run()
	return i
}

// isolatedBatch is how many accepts are stored at a time.
const isolatedBatch = 256

// take takes over a batch. It does not wait.
func (i *isolation) take(batch []*write) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.taken = append(i.taken, batch...)
	select {
	case i.wake <- struct{}{}:
	default: // it is awake already
	}
}

// close ends it. What has been taken is tried once, and not waited for.
func (i *isolation) close() {
	close(i.stop)
	<-i.stopped
}

func (i *isolation) run() {
	defer close(i.stopped)
	var waiting []*write // for the end of another transaction, the next one first
	together := 1        // so many of them are tried
	for {
		if fresh := i.fresh(); len(fresh) > 0 {
			waiting = append(waiting, i.divide(fresh)...)
			continue
		}
		select {
		case <-i.stop:
			answer(waiting, webhook.ErrInboxClosed)
			return
		default:
		}
		if len(waiting) == 0 {
			select {
			case <-i.wake:
			case <-i.stop:
			}
			continue
		}
		n, patience := min(together, len(waiting)), lockPatience
		if n > 1 {
			patience = time.Millisecond // for each part that it may have to be divided into
		}
		again := i.attempt(waiting[:n:n], patience)
		waiting = append(waiting[n:], again...)
		together = 1
		if len(again) == 0 { // others may have waited for the same, a lock of the table
			together = min(2*n, isolatedBatch)
		}
	}
}

// fresh returns what has been taken since it was last asked.
func (i *isolation) fresh() []*write {
	i.mu.Lock()
	defer i.mu.Unlock()
	fresh := i.taken
	i.taken = nil
	return fresh
}

// divide stores what can be stored, in as large parts as it can be, and returns
// what waits for another transaction. To find that out it does not wait itself.
func (i *isolation) divide(batch []*write) (waiting []*write) {
	for part := range slices.Chunk(batch, isolatedBatch) {
		waiting = append(waiting, i.attempt(part, time.Millisecond)...)
	}
	return waiting
}

func (i *isolation) attempt(batch []*write, patience time.Duration) (waiting []*write) {
	live := engine.StillWanted(batch)
	err := i.writer.transact(live, patience)
	switch {
	case !divisible(live, err):
		answer(live, err)
	case len(live) == 1:
		return live
	default:
		half := len(live) / 2
		return append(i.attempt(live[:half:half], patience), i.attempt(live[half:], patience)...)
	}
	return nil
}
