package memoryinbox

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Inbox is a [engine.Engine] in the memory of the process: see the package
// comment for what that does not survive.
//
// It keeps the other promises of an Engine as long as the process lives; what it
// holds is bounded, and bodies are not sealed. Its timers are those of package
// time, so that it works inside testing/synctest.
type Inbox struct {
	config  Config
	worker  *engine.Worker
	ctx     context.Context // of all handlers
	cancel  context.CancelFunc
	workers sync.WaitGroup

	// ready holds the partitions whose first event is due. Sending never blocks:
	// there is room for a partition of every event that may be held, and each
	// partition is in it at most once.
	ready chan *partition

	mu          sync.Mutex
	held        map[webhook.Key]*entry // waiting, being handled, or dead letters
	partitions  map[webhook.OrderingKey]*partition
	accepted    int64 // how many events
	lastDeath   time.Time
	bytes       int64 // of the bodies held
	pending     int   // held, and not dead letters
	handled     recent[webhook.Key, struct{}]
	newest      recent[webhook.OrderingKey, time.Time] // by object
	checkpoints reconcile.MemoryCheckpoints

	closed bool
	idle   chan struct{} // closed once closed and nothing is pending
}

var _ engine.Engine = (*Inbox)(nil)

// New returns an inbox whose workers have started. Close it to end them. An error
// is an [*api.ArgumentError].
func New(c Config) (*Inbox, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	worker, err := engine.NewWorker(c.Work)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	i := &Inbox{
		config:     c,
		worker:     worker,
		ctx:        ctx,
		cancel:     cancel,
		ready:      make(chan *partition, c.MaxEvents),
		held:       map[webhook.Key]*entry{},
		partitions: map[webhook.OrderingKey]*partition{},
		handled:    newRecent[webhook.Key, struct{}](c.MaxKeys),
		newest:     newRecent[webhook.OrderingKey, time.Time](c.MaxKeys),
		idle:       make(chan struct{}),
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
	if i.held[d.Key] != nil || i.handled.has(d.Key) {
		return webhook.Receipt{Duplicate: true}, nil
	}
	size := int64(cap(d.Body))
	if len(i.held) == i.config.MaxEvents || i.bytes+size > i.config.MaxBytes {
		return webhook.Receipt{}, webhook.ErrInboxFull
	}
	i.accepted++
	e.seq = i.accepted
	i.held[d.Key] = e
	i.bytes += size
	i.enqueue(e)
	return webhook.Receipt{}, nil
}

// CheckWrite implements [engine.Engine]. It fails with [webhook.ErrInboxFull] if there is no
// room for another event.
func (i *Inbox) CheckWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.closed:
		return webhook.ErrInboxClosed
	case len(i.held) == i.config.MaxEvents || i.bytes >= i.config.MaxBytes:
		return webhook.ErrInboxFull
	}
	return nil
}

// stored returns a delivery without the event that the handler has read: a body that
// waits is held once, and read again when it is handled.
func stored(d webhook.Delivery) webhook.Delivery {
	return webhook.Delivery{
		Key: d.Key, Type: d.Type, ClinicID: d.ClinicID, CreatedAt: d.CreatedAt, ReceivedAt: d.ReceivedAt, Body: d.Body,
	}
}

// enqueue puts an event into its partition; i.mu is held.
func (i *Inbox) enqueue(e *entry) {
	i.pending++
	p := i.partitions[e.orderingKey]
	if p == nil || e.orderingKey == "" {
		p = &partition{}
		if e.orderingKey != "" {
			i.partitions[e.orderingKey] = p
		}
	}
	e.partition, e.due = p, time.Now()
	p.insert(e)
	i.schedule(p)
}

// dequeue takes an event out of its partition; i.mu is held.
func (i *Inbox) dequeue(e *entry) {
	p := e.partition
	i.pending--
	e.partition = nil
	p.remove(e)
	if len(p.entries) == 0 && e.orderingKey != "" {
		delete(i.partitions, e.orderingKey)
	}
}

// schedule has the first event of a partition handled as soon as it is due, unless
// another one of the partition is being handled; i.mu is held.
func (i *Inbox) schedule(p *partition) {
	p.stopTimer()
	if p.taken || len(p.entries) == 0 || i.ctx.Err() != nil {
		return
	}
	if wait := time.Until(p.entries[0].due); wait > 0 {
		p.timer = time.AfterFunc(wait, func() {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.schedule(p)
		})
		return
	}
	p.taken = true
	i.ready <- p
}

// work runs one worker until the inbox is closed. An observer may end its goroutine; then
// another one takes its place.
func (i *Inbox) work() {
	defer func() {
		if i.ctx.Err() == nil {
			i.workers.Go(i.work)
		}
	}()
	for i.ctx.Err() == nil {
		select {
		case <-i.ctx.Done():
		case p := <-i.ready:
			i.handle(p)
		}
	}
}

// handle makes an attempt. One that ends before the handler is called counts.
func (i *Inbox) handle(p *partition) {
	e, task := i.claim(p)
	recorded := false
	record := func(a webhook.Attempt) error {
		recorded = true
		i.recordOutcome(p, e, a)
		return nil // recording an outcome in memory does not fail
	}
	defer func() {
		if !recorded {
			_ = record(i.abandoned(task))
		}
	}()
	_ = i.worker.Do(i.ctx, task, record)
}

// abandoned is the outcome of an attempt whose goroutine was ended.
func (i *Inbox) abandoned(t engine.Task) webhook.Attempt {
	a := webhook.Attempt{Delivery: t.Delivery, Number: t.Attempt, Result: webhook.ResultDead, Err: webhook.ErrAbandoned}
	if retry := i.worker.Work().Retry; t.Attempt < retry.MaxAttempts {
		a.Result, a.RetryIn = webhook.ResultFailed, retry.Wait(t.Attempt)
	}
	return a
}

// claim takes the first event of a partition, which may be an older one than the
// partition was scheduled for.
func (i *Inbox) claim(p *partition) (*entry, engine.Task) {
	i.mu.Lock()
	defer i.mu.Unlock()
	e := p.entries[0]
	e.running = true
	return e, engine.Task{
		Delivery: e.delivery,
		Attempt:  e.attempts + 1,
		Object:   e.object,
		Newest:   i.newest.values[e.object],
	}
}

func (i *Inbox) recordOutcome(p *partition, e *entry, a webhook.Attempt) {
	i.mu.Lock()
	defer i.mu.Unlock()
	p.taken, e.running = false, false
	switch a.Result {
	case webhook.ResultHandled, webhook.ResultSkipped:
		if a.Object != "" && a.CreatedAt.After(i.newest.values[a.Object]) {
			i.newest.put(a.Object, a.CreatedAt)
		}
		i.dequeue(e)
		i.drop(e)
	case webhook.ResultDead:
		i.dequeue(e)
		e.failed(a)
		e.err, e.due = a.Err, i.timeOfDeath()
	case webhook.ResultFailed:
		e.failed(a)
		e.due = time.Now().Add(a.RetryIn)
	case webhook.ResultReturned, webhook.ResultLost: // it stays where it is
	}
	i.schedule(p)
	i.checkIdle()
}

// drop ends the holding of an event; its key stays known. i.mu is held.
func (i *Inbox) drop(e *entry) {
	delete(i.held, e.delivery.Key)
	i.bytes -= int64(cap(e.delivery.Body))
	i.handled.put(e.delivery.Key, struct{}{})
}

// Close stops accepting, and waits until every event is handled or has become a
// dead letter, with retries and their waits; ctx bounds that. When ctx ends the
// handlers' contexts end too, and Close returns without waiting for them.
//
// If the inbox still holds events, dead letters included, the error matches [ErrUnfinished] and
// contains their number. The platform will not send them again, but List and Open still
// return them. Closing again reports the same.
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
	case <-i.ctx.Done(): // another call has given up, and what is left has no worker
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, e := range i.held {
		if e.partition != nil {
			e.partition.stopTimer()
		}
	}
	if len(i.held) > 0 {
		return fmt.Errorf("%w: %d", ErrUnfinished, len(i.held))
	}
	return nil
}

// checkIdle lets Close go on when nothing is pending; i.mu is held.
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

// Format prints the type only: what is held may be patient data.
func (i *Inbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "memoryinbox.Inbox") }
