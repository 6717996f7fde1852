package sqlinbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// longest is the longest sleep of the dispatcher. This process wakes it for every change, but
// the clock of the machine may be set.
const longest = time.Minute

// dispatcher claims due events for the handlers, and stores the outcomes of their attempts.
type dispatcher struct {
	config *Config
	worker *inboxkit.Worker
	writer *writer
	life   *inboxkit.Lifecycle

	lastNow  int64    // time of the writer's last claim; maxTime before the first one
	outcomes sync.Map // the claims whose outcomes are being stored, see claim.id

	wake  chan struct{} // an event may be due
	slots chan struct{} // one per free handler, none before the start
}

func newDispatcher(c *Config, worker *inboxkit.Worker, life *inboxkit.Lifecycle) *dispatcher {
	return &dispatcher{
		config: c, worker: worker, life: life, lastNow: maxTime,
		wake: make(chan struct{}, 1), slots: make(chan struct{}, worker.Work().Workers),
	}
}

// committed wakes the dispatcher if a transaction has made an event ready.
func (d *dispatcher) committed(t *tx) {
	d.lastNow = cmp.Or(t.now, d.lastNow)
	if !t.ready {
		return
	}
	select {
	case d.wake <- struct{}{}:
	default: // the dispatcher is awake already
	}
}

// claim claims up to n due events, and returns the wait until the next event. It does not
// sync, because a power failure ends the claims and their handlers together.
func (d *dispatcher) claim(n int) (claims []*claim, next time.Duration, err error) {
	var due sql.NullInt64
	claims, err = valueOf(context.Background(), d.writer.doLazily, func(t *tx) ([]*claim, error) {
		due = sql.NullInt64{}
		claims, err := d.handOut(t, n)
		if err != nil {
			return nil, err
		}
		// An ended claim is not waited for, because its outcome is being stored.
		_, err = t.first(`SELECT min(due_at) FROM (SELECT min(due_at) due_at FROM dispensary_inbox WHERE state = 3
			UNION ALL SELECT min(due_at) FROM dispensary_inbox WHERE state = 4 AND due_at > ?)`, []any{t.now}, &due)
		return claims, err
	})
	if err != nil {
		return nil, 0, err
	}
	next = longest
	if due.Valid {
		next = min(longest, time.Duration(due.Int64-d.config.micros()+1)*time.Microsecond)
	}
	return claims, next, nil
}

// fill claims events for vacant handlers.
func (d *dispatcher) fill(t *tx) error {
	if d.life.Stopped() {
		return nil
	}
	claims, err := d.handOut(t, len(t.vacant))
	for n, c := range claims {
		*t.vacant[n] = c
	}
	return err
}

// handOut claims up to n due events. It counts their attempts here, because an attempt may
// never end.
func (d *dispatcher) handOut(t *tx, n int) (claims []*claim, err error) {
	now := d.config.micros()
	t.now = now
	if err := d.reap(t, now); err != nil {
		return nil, err
	}
	if err := d.followClock(t, now); err != nil {
		return nil, err
	}
	err = t.each(`UPDATE dispensary_inbox SET state = 4, due_at = ?, attempts = attempts + 1, claim = claim + 1
		WHERE seq IN (SELECT seq FROM dispensary_inbox WHERE state = 3 AND due_at <= ? ORDER BY due_at, seq LIMIT ?)
		RETURNING seq, claim, attempts, coalesce(ordering_key, ''), coalesce(object, ''), coalesce(reason, ''), failures,
		(SELECT at FROM dispensary_inbox_newest n WHERE n.object = dispensary_inbox.object), `+columns,
		[]any{d.lease(now), now, n}, func(r *sql.Rows) error {
			c := &claim{}
			claims = append(claims, c)
			return r.Scan(append([]any{&c.seq, &c.number, &c.attempts, &c.orderingKey, &c.object, &c.reason, &c.failures, &c.newest}, c.into()...)...)
		})
	return claims, err
}

// task decrypts a claimed event, outside of the transaction.
func (d *dispatcher) task(c *claim) inboxkit.Task {
	task := inboxkit.Task{Attempt: c.attempts, Object: webhook.OrderingKey(c.object)}
	task.Delivery, task.Err = c.delivery(d.config.Seal)
	if c.newest.Valid {
		task.Newest = time.UnixMicro(c.newest.Int64).UTC()
	}
	if c.reason == webhook.ErrAbandoned.Error() && c.attempts > d.worker.Work().Retry.MaxAttempts {
		task.Attempt, task.Err, c.abandoned = c.attempts-1, webhook.ErrAbandoned, true
	}
	return task
}

// reap expires claims at their end, and stores the failures of their attempts. Claims of the
// previous process have ended, because it is dead: this one has the lock. A claim does not end
// while its outcome is being stored, however long that takes.
func (d *dispatcher) reap(t *tx, now int64) error {
	ended := now
	if d.lastNow == maxTime {
		ended = maxTime
	}
	var expired []*claim
	err := t.each(`SELECT seq, claim, attempts, failures, coalesce(ordering_key, '') FROM dispensary_inbox WHERE state = 4 AND due_at <= ?`,
		[]any{ended}, func(r *sql.Rows) error {
			c := &claim{}
			err := r.Scan(&c.seq, &c.number, &c.attempts, &c.failures, &c.orderingKey)
			if _, ok := d.outcomes.Load(c.id()); !ok {
				expired = append(expired, c)
			}
			return err
		})
	if err != nil {
		return err
	}
	for _, c := range expired {
		kept := c.keep(webhook.Attempt{Number: c.attempts, Err: webhook.ErrAbandoned}, now)
		err := t.exec(`UPDATE dispensary_inbox SET state = iif(ordering_key IS NULL, 3, 2), due_at = ?, reason = ?, failures = ?, request_ids = ?
			WHERE seq = ?`, now, webhook.ErrAbandoned.Error(), kept, kept.requestIDs(), c.seq)
		if err != nil {
			return err
		}
		if c.orderingKey == "" {
			continue
		}
		if err := promoteNext(t, c.orderingKey); err != nil {
			return err
		}
	}
	return nil
}

// headQuery returns the ready or running event of an ordering key. Only late events are older.
const headQuery = `SELECT seq, state, order_at FROM dispensary_inbox
	WHERE ordering_key = ? AND state < 5 AND state > 2 ORDER BY order_at, seq LIMIT 1`

// promoteHead makes the oldest event of an ordering key ready in place of the ready one, unless
// an event of the key is running.
func promoteHead(t *tx, orderingKey string) error {
	var head, orderAt, oldest int64
	var state int
	hasHead, err := t.first(headQuery, []any{orderingKey}, &head, &state, &orderAt)
	if err != nil || hasHead && state == stateRunning {
		return err
	}
	t.ready = true
	found, err := t.first(`SELECT seq FROM dispensary_inbox
		WHERE ordering_key = ? AND state < 5 ORDER BY order_at, seq LIMIT 1`, []any{orderingKey}, &oldest)
	if err != nil || !found || hasHead && head == oldest {
		return err
	}
	if hasHead {
		if err := t.exec("UPDATE dispensary_inbox SET state = 2 WHERE seq = ?", head); err != nil {
			return err
		}
	}
	return t.exec("UPDATE dispensary_inbox SET state = 3 WHERE seq = ?", oldest)
}

// promoteNext makes the oldest event of an ordering key ready. No event of the key may be
// ready or running.
func promoteNext(t *tx, orderingKey string) error {
	changed, err := t.changed(`UPDATE dispensary_inbox SET state = 3 WHERE seq = (SELECT seq FROM dispensary_inbox
		WHERE ordering_key = ? AND state < 5 ORDER BY order_at, seq LIMIT 1)`, orderingKey)
	t.ready = t.ready || changed > 0
	return err
}

// followClock limits due times if the clock was set back, because a clock that was ahead has
// stored them. A new event is then due now, a retry after the longest backoff, and a claim
// ends after the normal lease.
func (d *dispatcher) followClock(t *tx, now int64) error {
	if now >= d.lastNow {
		return nil
	}
	longest := now + d.worker.Work().Retry.MaxBackOff.Microseconds() + 1
	return t.exec(`UPDATE dispensary_inbox SET due_at = CASE WHEN state = 4 THEN min(due_at, ?) WHEN attempts = 0 THEN ? ELSE min(due_at, ?) END
		WHERE state IN (2, 3, 4) AND due_at > ?`, d.lease(now), now, longest, now)
}

// lease returns the end of a claim that begins now.
func (d *dispatcher) lease(now int64) int64 {
	return now + (d.worker.Work().HandlerTimeout + d.config.margin).Microseconds()
}

// run claims events for free handlers.
func (d *dispatcher) run() {
	if !d.worker.WaitForStart(d.life.Stopping()) {
		return
	}
	for range cap(d.slots) {
		d.slots <- struct{}{}
	}
	failures := 0
	for d.takeSlot() {
		n := 1 + d.takeFreeSlots()
		claims, next, err := d.claim(n)
		for range n - len(claims) {
			d.slots <- struct{}{}
		}
		for _, c := range claims {
			d.life.Go(func() { d.handle(c) })
		}
		switch {
		case errors.Is(err, webhook.ErrInboxClosed), errors.Is(err, api.ErrReplaced):
			return
		case err != nil:
			failures++
			next = min(time.Duration(failures)*100*time.Millisecond, 5*time.Second)
			d.worker.Work().Logger.LogAttrs(d.life.Context(), slog.LevelError, "webhook inbox cannot claim", slog.String("reason", err.Error()))
		case len(claims) == n:
			failures = 0
			continue // more events may be due
		default:
			failures = 0
		}
		timer := time.NewTimer(next)
		select {
		case <-d.wake:
		case <-timer.C:
		case <-d.life.Stopping():
		}
		timer.Stop()
	}
}

// takeSlot waits for a free handler. It returns false if the inbox closes.
func (d *dispatcher) takeSlot() bool {
	select {
	case <-d.slots:
		if !d.life.Stopped() {
			return true
		}
		d.slots <- struct{}{}
	case <-d.life.Stopping():
	}
	return false
}

func (d *dispatcher) takeFreeSlots() (n int) {
	for {
		select {
		case <-d.slots:
			n++
		default:
			return n
		}
	}
}

// handle makes the attempt of a claim, and of the next claim returned with each outcome.
func (d *dispatcher) handle(c *claim) {
	for c != nil {
		c = d.attempt(c)
	}
	d.slots <- struct{}{}
}

// attempt makes the attempt of a claim, and returns the next claim. If the inbox is closing,
// it returns the event to the queue instead.
func (d *dispatcher) attempt(c *claim) (next *claim) {
	task := d.task(c)
	if d.life.Stopped() {
		_, _ = d.recordWithRetry(c, webhook.Attempt{Delivery: task.Delivery, Result: webhook.ResultReturned})
		return nil
	}
	ctx, done := inboxkit.WithTransaction(d.life.Context(), task, d.inTransaction(c))
	// The error has been logged, and the event is due again when its claim expires.
	_ = d.worker.Do(ctx, task, func(a webhook.Attempt) (err error) {
		if !done() {
			next, err = d.recordWithRetry(c, a)
		}
		return err
	})
	return next
}
