package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dispensary-go/dispensary/webhook"
)

// maxBatch is how many accepts share a transaction at most: enough that its costs
// are shared by everyone who waits, few enough that nobody waits long.
const maxBatch = 256

// transactionTimeout ends a transaction that the database does not.
const transactionTimeout = 30 * time.Second

// write is an accept that waits.
type write struct {
	ctx       context.Context // a write whose caller has left is not done
	row       *newRow
	duplicate bool
	done      chan error // buffered
}

// writer accepts. One goroutine stores everything that waits in one transaction:
// what costs is its round trips and the sync at its end, and these are shared.
// What cannot be stored together is left to another goroutine, see [apart].
type writer struct {
	inbox  *Inbox
	writes chan *write
	apart  *apart

	stop    chan struct{} // closed to end it once nothing waits
	stopped chan struct{} // closed when it has ended
	once    sync.Once
}

func newWriter(i *Inbox) *writer {
	w := &writer{
		inbox:   i,
		writes:  make(chan *write, 4*maxBatch),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	w.apart = newApart(w)
	go w.run()
	return w
}

// do has a row stored and waits until that is committed. When ctx ends first the
// row may be stored all the same.
func (w *writer) do(ctx context.Context, row *newRow) (duplicate bool, err error) {
	job := &write{ctx: ctx, row: row, done: make(chan error, 1)}
	select {
	case <-w.stop: // checked alone first: select chooses at random
		return false, webhook.ErrInboxClosed
	default:
	}
	select {
	case w.writes <- job:
	case <-w.stop:
		return false, webhook.ErrInboxClosed
	case <-ctx.Done():
		return false, ctx.Err()
	}
	select {
	case err = <-job.done:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-w.stopped:
		select {
		case err = <-job.done:
		default:
			return false, webhook.ErrInboxClosed // it came when the last had been done
		}
	}
	return err == nil && job.duplicate, err
}

// close ends the writer after what waits has been done. What waits for a
// transaction of somebody else is not: see [apart].
func (w *writer) close() {
	w.once.Do(func() { close(w.stop) })
	<-w.stopped
}

func (w *writer) run() {
	defer close(w.stopped)
	defer w.apart.close()
	for {
		select {
		case first := <-w.writes:
			w.commit(w.gather(first))
		case <-w.stop:
			for {
				select {
				case first := <-w.writes:
					w.commit(w.gather(first))
				default:
					return
				}
			}
		}
	}
}

// gather takes what waits already. It waits for nothing itself: while one
// transaction is committed, the next one fills up.
func (w *writer) gather(first *write) []*write {
	batch := append(make([]*write, 0, 16), first)
	for len(batch) < maxBatch {
		select {
		case next := <-w.writes:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// lockPatience is how long the transaction that everybody shares waits for a key
// which a transaction of somebody else has inserted and not committed. Another
// replica's is committed by then, as a rule; the program's own may take for ever.
const lockPatience = 20 * time.Millisecond

// commit does a batch in one transaction. If the database refuses it, it is left
// to be taken apart: what is wrong with one is no other's fault.
func (w *writer) commit(batch []*write) {
	live := present(batch)
	err := w.transact(live, lockPatience)
	if divisible(live, err) {
		w.apart.take(live)
		return
	}
	answer(live, err)
}

// present tells those who have left, and returns the others.
func present(batch []*write) []*write {
	live := batch[:0]
	for _, job := range batch {
		if err := job.ctx.Err(); err != nil {
			job.done <- err
			continue
		}
		live = append(live, job)
	}
	return live
}

func answer(batch []*write, err error) {
	for _, job := range batch {
		job.done <- err
	}
}

// divisible reports that a batch failed by something that the database has against
// one of its rows, perhaps.
func divisible(batch []*write, err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (len(batch) > 1 || contended(err))
}

// contended reports that a key is in a transaction of somebody else.
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
	begin := fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d", patience.Milliseconds())
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
		rows[n] = job.row
	}
	// What follows waits as long as it has to: all who announce a job take turns
	// at their commit.
	fresh, err := w.inbox.insert(ctx, tx, rows, func(b *pgx.Batch) { b.Queue("SET LOCAL lock_timeout TO DEFAULT") })
	for _, job := range batch {
		job.duplicate = !fresh[job.row.key]
		delete(fresh, job.row.key)
	}
	return err
}
