package inboxkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// The limits of a batch: large enough to spread the cost of a transaction over all waiting
// writes, small enough that no write waits long.
const (
	maxBatch      = 256     // urgent writes, or normal and urgent writes
	maxBatchBytes = 1 << 20 // size of the normal writes after the first
)

// Batcher is a group commit: many goroutines submit writes, and one goroutine stores all
// waiting writes in one transaction. The writes share the expensive parts, the round trips of
// the transaction and the sync at its end. While one batch is stored, the next one fills.
type Batcher[T any] struct {
	config BatcherConfig[T]
	urgent chan *Write[T]
	normal chan *Write[T]

	stop    chan struct{} // closed by Close; run stops once no write waits
	stopped chan struct{} // closed when run has returned
	once    sync.Once
}

// BatcherConfig configures a [Batcher]. Commit is required. The goroutine of the Batcher calls
// all functions.
type BatcherConfig[T any] struct {
	// Commit stores a batch and calls Done on each write, before it returns. The batch
	// contains no write with a canceled caller.
	Commit func([]*Write[T])

	// Size returns the size of a normal write in bytes. Nil means 0 for each write.
	Size func(T) int

	// Limit is the largest number of normal writes in a batch. 0 means the size of a batch.
	Limit int
}

// Write is a waiting write. A Commit that fails may store it again, alone.
type Write[T any] struct {
	Value T

	ctx  context.Context
	done chan error // buffered
}

// Done returns err to the caller of Do or DoUrgent.
func (w *Write[T]) Done(err error) { w.done <- err }

// NewBatcher creates a batcher and starts its goroutine. Close stops it.
func NewBatcher[T any](c BatcherConfig[T]) *Batcher[T] {
	b := &Batcher[T]{
		config:  c,
		urgent:  make(chan *Write[T], 4*maxBatch),
		normal:  make(chan *Write[T], 4*maxBatch),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	go b.run()
	return b
}

// Do stores value and waits until it is stored. If ctx ends first, value may still be stored.
// After Close, it returns [webhook.ErrInboxClosed].
func (b *Batcher[T]) Do(ctx context.Context, value T) error { return b.do(ctx, b.normal, value) }

// DoUrgent is [Batcher.Do] with priority over normal writes.
func (b *Batcher[T]) DoUrgent(ctx context.Context, value T) error { return b.do(ctx, b.urgent, value) }

// PostUrgent stores value after all urgent writes submitted earlier. It does not wait for the
// result.
func (b *Batcher[T]) PostUrgent(value T) {
	select {
	case b.urgent <- newWrite(context.Background(), value):
	default: // the queue is full
		go func() { _ = b.DoUrgent(context.Background(), value) }()
	}
}

func newWrite[T any](ctx context.Context, value T) *Write[T] {
	return &Write[T]{Value: value, ctx: ctx, done: make(chan error, 1)}
}

func (b *Batcher[T]) do(ctx context.Context, queue chan<- *Write[T], value T) error {
	w := newWrite(ctx, value)
	select {
	case <-b.stop: // checked first, because select chooses at random
		return webhook.ErrInboxClosed
	default:
	}
	select {
	case queue <- w:
	case <-b.stop:
		return webhook.ErrInboxClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-b.stopped:
		select {
		case err := <-w.done:
			return err
		default:
			return webhook.ErrInboxClosed // submitted after the last batch
		}
	}
}

// Waiting returns the number of writes in the queues.
func (b *Batcher[T]) Waiting() int { return len(b.urgent) + len(b.normal) }

// Close stores all waiting writes and stops the batcher.
func (b *Batcher[T]) Close() {
	b.once.Do(func() { close(b.stop) })
	<-b.stopped
}

func (b *Batcher[T]) run() {
	defer close(b.stopped)
	for b.commitNext() {
		// until Close is called
	}
	for {
		select {
		case w := <-b.urgent:
			b.commit(b.gather(w, nil))
		case w := <-b.normal:
			b.commit(b.gather(nil, w))
		default:
			return
		}
	}
}

// commitNext waits for a write and commits the next batch. It returns false if the batcher was
// closed and no write waits.
func (b *Batcher[T]) commitNext() bool {
	select {
	case w := <-b.urgent:
		b.commit(b.gather(w, nil))
		return true
	case w := <-b.normal:
		b.commit(b.gather(nil, w))
		return true
	default:
	}
	select {
	case w := <-b.urgent:
		b.commit(b.gather(w, nil))
	case w := <-b.normal:
		b.commit(b.gather(nil, w))
	case <-b.stop:
		return false
	}
	return true
}

func (b *Batcher[T]) commit(batch []*Write[T]) {
	if live := wanted(batch); len(live) > 0 {
		b.config.Commit(live)
	}
}

// wanted removes writes with a canceled caller, and calls Done on them.
func wanted[T any](batch []*Write[T]) []*Write[T] {
	return slices.DeleteFunc(batch, func(w *Write[T]) bool {
		err := w.ctx.Err()
		if err != nil {
			w.Done(err)
		}
		return err != nil
	})
}

// gather returns the next batch. urgent or normal, the other one nil, is its first write. It
// adds all waiting urgent writes, and as many waiting normal writes as the limit allows.
func (b *Batcher[T]) gather(urgent, normal *Write[T]) []*Write[T] {
	batch := make([]*Write[T], 0, 16)
	if urgent != nil {
		batch = append(batch, urgent)
	}
	batch = b.gatherUrgent(batch)
	if normal == nil {
		select {
		case normal = <-b.normal:
		default:
			return batch
		}
	}
	return b.gatherNormal(batch, normal)
}

// gatherUrgent adds the waiting urgent writes.
func (b *Batcher[T]) gatherUrgent(batch []*Write[T]) []*Write[T] {
	for len(batch) < maxBatch {
		select {
		case w := <-b.urgent:
			batch = append(batch, w)
		default:
			return batch
		}
	}
	return batch
}

// gatherNormal adds first and the waiting normal writes. It then yields to goroutines that can
// run now and are about to submit writes, until a yield adds none. It does not wait for any
// other write.
func (b *Batcher[T]) gatherNormal(batch []*Write[T], first *Write[T]) []*Write[T] {
	left, bytes := cmp.Or(b.config.Limit, maxBatch)-1, 0
	batch = append(batch, first)
	for before := 0; left > 0 && len(batch) < maxBatch && bytes < maxBatchBytes; {
		select {
		case w := <-b.normal:
			batch = append(batch, w)
			left--
			if b.config.Size != nil {
				bytes += b.config.Size(w.Value)
			}
		default:
			if len(batch) == before {
				return batch
			}
			before = len(batch)
			runtime.Gosched()
		}
	}
	return batch
}

// LeaseMargin is added to the handler timeout before an event counts as abandoned. A handler
// needs a moment to stop once its context has ended.
const LeaseMargin = 30 * time.Second

// stopPatience is the default of [Lifecycle].Patience.
const stopPatience = 2 * time.Second

// Lifecycle stops an engine in order. Once Close is called, the engine starts no new work.
// Handlers may finish until the context of Close ends. Then their context is canceled.
type Lifecycle struct {
	// Patience is how long a handler may take to stop once its context has ended, and the
	// storage another time. It must not change after the first use. The default is 2 seconds.
	Patience time.Duration

	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex // prevents Begin from adding to tasks while Close waits for them
	tasks    sync.WaitGroup
	stopping chan struct{} // closed when Close begins
	ended    chan struct{} // closed after end has returned
	once     sync.Once
	err      error // returned by end
}

// NewLifecycle returns the lifecycle of a running engine.
func NewLifecycle() *Lifecycle {
	l := &Lifecycle{Patience: stopPatience, stopping: make(chan struct{}), ended: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Context returns the context of all handlers. It ends once Close no longer waits for them.
func (l *Lifecycle) Context() context.Context { return l.ctx }

// Stopping returns a channel. Close closes it first.
func (l *Lifecycle) Stopping() <-chan struct{} { return l.stopping }

// Stopped reports whether Close was called.
func (l *Lifecycle) Stopped() bool {
	select {
	case <-l.stopping:
		return true
	default:
		return false
	}
}

// Begin registers a task. Close waits until done is called. ok is false if the engine was
// closed.
func (l *Lifecycle) Begin() (done func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Stopped() {
		return nil, false
	}
	l.tasks.Add(1)
	return l.tasks.Done, true
}

// Go runs a task on a goroutine of its own. Close waits for it. Unlike Begin, it may be called
// while Close waits, for a task that follows another one.
func (l *Lifecycle) Go(task func()) { l.tasks.Go(task) }

// Close stops the engine. It calls drain, which must wait for everything that starts tasks,
// and then waits for the tasks. If ctx ends first, it cancels their context and abandons tasks
// that do not stop. Then it calls end, which closes the other parts in order of their
// dependencies, and returns its error.
//
// Close returns at most 2 × Patience after the end of ctx. If the storage has not responded by
// then, it returns the error of ctx. Closing continues in the background, and another call of
// Close waits for it.
func (l *Lifecycle) Close(ctx context.Context, drain func(), end func() error) error {
	l.once.Do(func() {
		l.mu.Lock()
		close(l.stopping)
		l.mu.Unlock()
		go func() {
			defer close(l.ended)
			l.drain(ctx, drain)
			l.cancel()
			l.err = end()
		}()
	})
	select {
	case <-l.ended:
		return l.err
	case <-ctx.Done():
	}
	select {
	case <-l.ended:
		return l.err
	case <-time.After(2 * l.Patience): // handlers, and then the storage
		return fmt.Errorf("engine: still closing: %w", ctx.Err())
	}
}

// drain waits for the running tasks. When ctx ends, it cancels their context, waits for
// Patience and abandons the rest.
func (l *Lifecycle) drain(ctx context.Context, drain func()) {
	drained := make(chan struct{})
	go func() {
		drain()
		l.tasks.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		return
	case <-ctx.Done():
		l.cancel()
	}
	select {
	case <-drained:
	case <-time.After(l.Patience):
	}
}

// Record calls record until it succeeds or the claim on the event expires after lasts. A
// finished handler should not run again because the storage failed for a moment. The wait
// between two calls starts at 50 milliseconds and doubles up to 1 second.
//
// Record stops immediately on [engine.ErrClaimLost] or [webhook.ErrInboxClosed], and after one more
// call once Close no longer waits for handlers. It returns the last error.
func (l *Lifecycle) Record(logger *slog.Logger, lasts time.Duration, record func() error) error {
	end := time.Now().Add(lasts)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := record()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, engine.ErrClaimLost), errors.Is(err, webhook.ErrInboxClosed), time.Now().After(end):
			return err
		}
		logger.LogAttrs(l.ctx, slog.LevelWarn, "webhook inbox cannot record an outcome; retrying", slog.String("reason", err.Error()))
		select {
		case <-time.After(wait):
		case <-l.ctx.Done():
			end = time.Time{} // one last call
		}
	}
}
