package riverinbox

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/webhook"
)

// WithMargin sets how much longer than its time-out a handler may take.
func (c Config) WithMargin(d time.Duration) Config {
	c.margin = d
	return c
}

// Purge deletes what is due for it.
func (i *Inbox) Purge(ctx context.Context) error { return i.purge(ctx) }

// Claim is a claim of an event.
type Claim struct {
	Context context.Context // of its handler

	inbox *Inbox
	claim *claim
}

// Claim claims an event, or the first event of its ordering key, and keeps that claimed; it
// returns nil if it cannot.
func (i *Inbox) Claim(ctx context.Context, subject string, key webhook.Key) (*Claim, error) {
	p := partition{Subject: subject}
	if subject == "" {
		p.Event = key.String()
	}
	c, _, err := i.newRun(p).claim(ctx)
	if c == nil {
		return nil, err
	}
	ctx, _ = i.leases.hold(context.WithoutCancel(ctx), c)
	return &Claim{ctx, i, c}, err
}

// ExtendClaims extends what is claimed.
func (i *Inbox) ExtendClaims() { i.leases.renew() }

// Attempt is one at the event that was claimed.
func (c *Claim) Attempt() webhook.Attempt {
	return webhook.Attempt{Delivery: c.claim.task.Delivery, Number: c.claim.task.Attempt, Err: c.claim.task.Err}
}

// Record stores the outcome of an attempt. If unsure, that was done before, without an
// answer.
func (c *Claim) Record(ctx context.Context, a webhook.Attempt, unsure bool) error {
	c.claim.unsure = unsure
	return c.inbox.recordOutcome(c.claim, a, sendTo(ctx, c.inbox.pool))
}

// KeepPartitions makes partitions, moves what is settled and drops what is over.
func (i *Inbox) KeepPartitions(ctx context.Context) error { return i.keepPartitions(ctx) }

// MakePartitions makes the partitions of a day, of the ledger and of bodies.
func (i *Inbox) MakePartitions(ctx context.Context, of time.Time) error {
	return pgx.BeginFunc(ctx, i.pool, func(tx pgx.Tx) error { return i.makeAllPartitions(ctx, tx, []time.Time{of}) })
}

// Contended reports that a lock was not to be had in time.
func Contended(err error) bool { return contended(err) }

// HoldOutcomes has the outcomes of handlers wait until release is called. Waiting is how
// many do.
func (i *Inbox) HoldOutcomes() (waiting func() int, release func()) {
	held, gate := make(chan struct{}), make(chan struct{})
	go func() {
		_ = i.recording.do(context.Background(), request{queue: func(*pgx.Batch) {
			close(held)
			<-gate
		}})
	}()
	<-held
	return i.recording.batcher.Waiting, sync.OnceFunc(func() { close(gate) })
}

// AcceptIn accepts in a transaction that is still open, as another replica does.
func (i *Inbox) AcceptIn(ctx context.Context, tx pgx.Tx, d webhook.Delivery) (webhook.Receipt, error) {
	row, err := i.newRow(d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	fresh, err := i.insert(ctx, tx, []*newRow{row})
	return webhook.Receipt{Duplicate: len(fresh) == 0}, err
}
