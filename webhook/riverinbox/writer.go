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

// writer is the one goroutine that accepts. It stores everything that waits in
// one transaction: what costs is its round trips and the sync at its end, and
// these are shared.
type writer struct {
	inbox  *Inbox
	writes chan *write

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

// commit does a batch in one transaction. If the database refuses it, each write
// is tried alone: what is wrong with one is no other's fault.
func (w *writer) commit(batch []*write) {
	live := batch[:0]
	for _, job := range batch {
		if err := job.ctx.Err(); err != nil {
			job.done <- err
			continue
		}
		live = append(live, job)
	}
	err := w.transact(live)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && len(live) > 1 {
		for _, job := range live {
			job.done <- w.transact([]*write{job})
		}
		return
	}
	for _, job := range live {
		job.done <- err
	}
}

// transact stores a batch. Where it fails before the commit, because a connection
// has died or two replicas blocked each other, it tries once more; what a commit
// without an answer has done is not known.
func (w *writer) transact(batch []*write) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
	defer cancel()
	committing, err := w.try(ctx, batch)
	if err != nil && !committing {
		_, err = w.try(ctx, batch)
	}
	return err
}

func (w *writer) try(ctx context.Context, batch []*write) (committing bool, err error) {
	tx, err := w.inbox.pool.Begin(ctx)
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
	fresh, err := w.inbox.insert(ctx, tx, rows)
	for _, job := range batch {
		job.duplicate = !fresh[job.row.key]
		delete(fresh, job.row.key)
	}
	return err
}
