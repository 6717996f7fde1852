// Package memoryinbox is an engine in the memory of the process. Use it in tests, to try the
// library, or if your program finds every missed event in another way.
//
//	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch}})
//
// The inbox is not durable. If the process dies, it loses events that were acknowledged but not
// yet handled. After a restart it does not recognize duplicates, and two processes share no keys.
// Retries are due by the clock of the process.
//
// Package sqlinbox stores events in a file, and package riverinbox in PostgreSQL. All three take
// the same [webhook.Work].
package memoryinbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Config configures an [Inbox]. Work.Handle is required. All other fields have defaults.
type Config struct {
	// Work configures the handling of events. Its retries have shorter defaults than in other
	// engines, because Close waits for them: 10 attempts, and waits of at most 5 minutes.
	Work webhook.Work

	// MaxEvents is the largest number of stored events, including dead letters. 0 means 10,000.
	// Accept rejects further events, so the platform sends them again.
	MaxEvents int

	// MaxBytes is the largest size of all stored bodies in bytes. 0 means 64 MiB.
	MaxBytes int64

	// MaxKeys is the number of keys of handled events that the inbox keeps to recognize
	// duplicates. It also limits the number of objects for which the inbox keeps the time of the
	// newest event. 0 means 100,000. The inbox drops the oldest entries first.
	MaxKeys int
}

func (c Config) withDefaults() (Config, error) {
	for field, negative := range map[string]bool{"MaxEvents": c.MaxEvents < 0, "MaxBytes": c.MaxBytes < 0, "MaxKeys": c.MaxKeys < 0} {
		if negative {
			return c, &api.ArgumentError{Field: "memoryinbox.Config." + field, Reason: "is negative"}
		}
	}
	c.MaxEvents = cmp.Or(c.MaxEvents, 10_000)
	c.MaxBytes = cmp.Or(c.MaxBytes, 64<<20)
	c.MaxKeys = cmp.Or(c.MaxKeys, 100_000)
	c.Work.Retry.MaxAttempts = cmp.Or(c.Work.Retry.MaxAttempts, 10)
	c.Work.Retry.MaxBackOff = cmp.Or(c.Work.Retry.MaxBackOff, 5*time.Minute)
	return c, nil
}

// errUnfinished is the error of [Inbox.Close] if the inbox still stores events.
var errUnfinished = errors.New("memoryinbox: closed with unhandled events")

// Inbox is an [engine.Engine] in the memory of the process. The package comment lists the losses
// if the process dies. While the process runs, Inbox keeps all other guarantees of an Engine.
//
// It stores a limited number of events and does not encrypt bodies. It uses the timers of package
// time, so it works inside testing/synctest.
type Inbox struct {
	config  Config
	worker  *inboxkit.Worker
	ctx     context.Context // of all handlers
	cancel  context.CancelFunc
	workers sync.WaitGroup

	// ready contains the queues with a due first event. Sending never blocks: its capacity is
	// one queue per event, and each queue is in it at most once.
	ready chan *queue

	mu          sync.Mutex
	entries     map[webhook.Key]*entry // waiting, running and dead
	queues      map[webhook.OrderingKey]*queue
	accepted    int64 // events since New
	lastDeath   time.Time
	bytes       int64 // of all bodies
	pending     int   // events that are not dead letters
	finished    recent[webhook.Key, engine.Finished]
	newest      recent[webhook.OrderingKey, time.Time] // by object
	checkpoints inboxkit.MemoryCheckpoints

	closed bool
	idle   chan struct{} // closed once the inbox is closed and pending is 0
}

var _ engine.Engine = (*Inbox)(nil)

// New returns an inbox and starts its workers. Close stops them. An error is an
// [*api.ArgumentError].
func New(c Config) (*Inbox, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	worker, err := inboxkit.NewWorker(c.Work)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	i := &Inbox{
		config:   c,
		worker:   worker,
		ctx:      ctx,
		cancel:   cancel,
		ready:    make(chan *queue, c.MaxEvents),
		entries:  map[webhook.Key]*entry{},
		queues:   map[webhook.OrderingKey]*queue{},
		finished: newRecent[webhook.Key, engine.Finished](c.MaxKeys),
		newest:   newRecent[webhook.OrderingKey, time.Time](c.MaxKeys),
		idle:     make(chan struct{}),
	}
	for range worker.Work().Workers {
		i.workers.Go(i.work)
	}
	return i, nil
}

// Accept implements [webhook.Inbox]. It fails with [webhook.ErrInboxFull] and
// [webhook.ErrInboxClosed].
func (i *Inbox) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return webhook.Receipt{}, err
	}
	e := &entry{delivery: stored(d)}
	e.orderingKey, e.object = i.worker.OrderingKeys(d)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return webhook.Receipt{}, webhook.ErrInboxClosed
	}
	if i.entries[d.Key] != nil || i.finished.has(d.Key) {
		return webhook.Receipt{Duplicate: true}, nil
	}
	size := int64(cap(d.Body))
	if len(i.entries) == i.config.MaxEvents || i.bytes+size > i.config.MaxBytes {
		return webhook.Receipt{}, webhook.ErrInboxFull
	}
	i.accepted++
	e.seq = i.accepted
	i.entries[d.Key] = e
	i.bytes += size
	i.enqueue(e)
	return webhook.Receipt{}, nil
}

// CheckWrite implements [engine.Engine]. It fails with [webhook.ErrInboxFull] if the inbox has no
// room for another event, and with [webhook.ErrInboxClosed].
func (i *Inbox) CheckWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.closed:
		return webhook.ErrInboxClosed
	case len(i.entries) == i.config.MaxEvents || i.bytes >= i.config.MaxBytes:
		return webhook.ErrInboxFull
	}
	return nil
}

// stored returns d without its parsed event. The worker parses the body again.
func stored(d webhook.Delivery) webhook.Delivery {
	return webhook.Delivery{
		Key: d.Key, Type: d.Type, ClinicID: d.ClinicID, CreatedAt: d.CreatedAt, ReceivedAt: d.ReceivedAt, Body: d.Body,
	}
}

// enqueue adds an event to its queue, due immediately. The caller locks i.mu.
func (i *Inbox) enqueue(e *entry) {
	i.pending++
	q := i.queues[e.orderingKey]
	if q == nil || e.orderingKey == "" {
		q = &queue{}
		if e.orderingKey != "" {
			i.queues[e.orderingKey] = q
		}
	}
	e.queue, e.due = q, time.Now()
	q.insert(e)
	i.schedule(q)
}

// dequeue removes an event from its queue. The caller locks i.mu.
func (i *Inbox) dequeue(e *entry) {
	q := e.queue
	i.pending--
	e.queue = nil
	q.remove(e)
	if len(q.entries) == 0 && e.orderingKey != "" {
		delete(i.queues, e.orderingKey)
	}
}

// schedule passes a queue to the workers once its first event is due, unless a worker already
// has the queue. The caller locks i.mu.
func (i *Inbox) schedule(q *queue) {
	q.stopTimer()
	if q.taken || len(q.entries) == 0 || i.ctx.Err() != nil {
		return
	}
	if wait := time.Until(q.entries[0].due); wait > 0 {
		q.timer = time.AfterFunc(wait, func() {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.schedule(q)
		})
		return
	}
	q.taken = true
	i.ready <- q
}

// work runs one worker until the inbox is closed.
func (i *Inbox) work() {
	if !i.worker.WaitForStart(i.ctx.Done()) {
		return
	}
	for i.ctx.Err() == nil {
		select {
		case <-i.ctx.Done():
		case q := <-i.ready:
			i.handle(q)
		}
	}
}

// handle runs one attempt for the first event of q.
func (i *Inbox) handle(q *queue) {
	e, task := i.claim(q)
	_ = i.worker.Do(i.ctx, task, func(a webhook.Attempt) error {
		i.recordOutcome(q, e, a)
		return nil // recording an outcome in memory does not fail
	})
}

// claim marks the first event of q as running and returns its task. An older event may have
// arrived since schedule.
func (i *Inbox) claim(q *queue) (*entry, inboxkit.Task) {
	i.mu.Lock()
	defer i.mu.Unlock()
	e := q.entries[0]
	e.running = true
	return e, inboxkit.Task{
		Delivery: e.delivery,
		Attempt:  e.attempts + 1,
		Object:   e.object,
		Newest:   i.newest.values[e.object],
	}
}

func (i *Inbox) recordOutcome(q *queue, e *entry, a webhook.Attempt) {
	i.mu.Lock()
	defer i.mu.Unlock()
	q.taken, e.running = false, false
	switch a.Result {
	case webhook.ResultHandled, webhook.ResultSkipped:
		if a.Object != "" && a.CreatedAt.After(i.newest.values[a.Object]) {
			i.newest.put(a.Object, a.CreatedAt)
		}
		i.dequeue(e)
		i.drop(e, false)
	case webhook.ResultDead:
		i.dequeue(e)
		e.failed(a)
		e.err, e.due = a.Err, i.timeOfDeath()
	case webhook.ResultFailed:
		e.failed(a)
		e.due = time.Now().Add(a.RetryIn)
	case webhook.ResultReturned, webhook.ResultLost: // the event stays in its queue
	}
	i.schedule(q)
	i.checkIdle()
}

// drop deletes an event and keeps its key. The caller locks i.mu.
func (i *Inbox) drop(e *entry, discarded bool) {
	delete(i.entries, e.delivery.Key)
	i.bytes -= int64(cap(e.delivery.Body))
	i.finished.put(e.delivery.Key, engine.Finished{Discarded: discarded, At: time.Now().UTC()})
}

// Close stops accepting and waits until every event is handled or a dead letter, including
// retries and the waits before them. If ctx ends first, Close cancels the contexts of the
// handlers and returns without waiting for them.
//
// If the inbox still stores events, including dead letters, Close fails and the error contains
// their number. The platform will not send them again, but List and Open still return them.
// Another call of Close returns the same error.
func (i *Inbox) Close(ctx context.Context) error {
	i.mu.Lock()
	i.closed = true
	i.checkIdle()
	i.mu.Unlock()
	select {
	case <-i.idle:
		i.cancel()
		i.workers.Wait()
	case <-ctx.Done():
		i.cancel()
	case <-i.ctx.Done(): // an earlier Close timed out, so no worker handles the rest
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, e := range i.entries {
		if e.queue != nil {
			e.queue.stopTimer()
		}
	}
	if len(i.entries) > 0 {
		return fmt.Errorf("%w: %d", errUnfinished, len(i.entries))
	}
	return nil
}

// checkIdle unblocks Close once no event is pending. The caller locks i.mu.
func (i *Inbox) checkIdle() {
	if !i.closed || i.pending > 0 {
		return
	}
	select {
	case <-i.idle:
	default:
		close(i.idle)
	}
}

// Format prints only the type, because events contain patient data.
func (i *Inbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "memoryinbox.Inbox") }

var _ reconcile.Inbox = (*Inbox)(nil)

// Missing implements [reconcile.Inbox]. It also returns keys that the inbox dropped because of
// Config.MaxKeys.
func (i *Inbox) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return nil, webhook.ErrInboxClosed
	}
	return inboxkit.Missing(keys, func(key webhook.Key) bool { return i.entries[key] != nil || i.finished.has(key) }), nil
}

// ClaimCheckpoint implements [reconcile.Inbox].
func (i *Inbox) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed && ctx.Err() == nil {
		return nil, webhook.ErrInboxClosed
	}
	return i.checkpoints.ClaimCheckpoint(ctx, name, holder, ttl)
}

// SaveCheckpoint implements [reconcile.Inbox].
func (i *Inbox) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed && ctx.Err() == nil {
		return webhook.ErrInboxClosed
	}
	return i.checkpoints.SaveCheckpoint(ctx, name, holder, state, ttl)
}

// ReadCheckpoint returns the last saved state, or nil if there is none. It does not claim the
// checkpoint.
func (i *Inbox) ReadCheckpoint(ctx context.Context, name string) ([]byte, error) {
	return i.checkpoints.ReadCheckpoint(ctx, name)
}

// ReleaseCheckpoint implements [reconcile.Inbox]. It also works on a closed inbox.
func (i *Inbox) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return i.checkpoints.ReleaseCheckpoint(ctx, name, holder)
}
