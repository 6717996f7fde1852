package inboxkit

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// What shares a transaction at most: enough that its costs are shared by all who
// wait, little enough that nothing waits long.
const (
	maxBatch      = 256     // writes
	maxBatchBytes = 1 << 20 // of them, beyond the first
)

// Batcher is a group commit: many goroutines hand writes to it, and one goroutine
// stores what waits in one transaction. What costs is the transaction's round trips
// and the sync at its end, and these are shared. While one batch is stored the next
// one fills up.
type Batcher[T any] struct {
	config BatcherConfig[T]
	urgent chan *Write[T]
	normal chan *Write[T]

	stop    chan struct{} // closed to end it when nothing waits
	stopped chan struct{} // closed when it has ended
	once    sync.Once
}

// BatcherConfig is what a [Batcher] is made of. Commit is required. All functions
// are called by the one goroutine of the Batcher.
type BatcherConfig[T any] struct {
	// Commit stores a batch, and calls Done of each write, then or later. What its
	// caller has given up is not in the batch.
	Commit func([]*Write[T])

	// Size is how many bytes a normal write adds to a transaction; nil means none.
	Size func(T) int

	// Wait is how long a batch, which has these urgent writes so far, waits for
	// another one that is expected; it is called again after each. Nil means that
	// no batch waits.
	Wait func(urgent []*Write[T]) time.Duration

	// Limit is how many normal writes a batch takes in that has these urgent ones,
	// if the first normal one has waited for so long. Nil means all that wait.
	Limit func(urgent []*Write[T], waited time.Duration) int

	// Drain is called when the Batcher is closed, after the last Commit, and calls
	// Done of what Commit has left for later. Nil means that there is none.
	Drain func()
}

// Write is something that waits to be stored. A Commit that fails may store it
// again, alone.
type Write[T any] struct {
	Value T

	ctx   context.Context
	since time.Time
	done  chan error // buffered
}

// Done ends the wait of the caller, with the error of what it asked for.
func (w *Write[T]) Done(err error) { w.done <- err }

// NewBatcher returns a batcher. Close it to end its goroutine.
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

// Do has value stored, and waits until it is. When ctx ends first it may be stored
// all the same. After Close the error is [webhook.ErrInboxClosed].
func (b *Batcher[T]) Do(ctx context.Context, value T) error { return b.do(ctx, b.normal, value) }

// DoUrgent is [Batcher.Do] for what goes ahead of normal writes.
func (b *Batcher[T]) DoUrgent(ctx context.Context, value T) error { return b.do(ctx, b.urgent, value) }

// PostUrgent has value stored after every urgent write that was asked for before,
// and does not wait for it.
func (b *Batcher[T]) PostUrgent(value T) {
	select {
	case b.urgent <- newWrite(context.Background(), value):
	default: // too much is waiting
		go func() { _ = b.DoUrgent(context.Background(), value) }()
	}
}

func newWrite[T any](ctx context.Context, value T) *Write[T] {
	return &Write[T]{Value: value, ctx: ctx, since: time.Now(), done: make(chan error, 1)}
}

func (b *Batcher[T]) do(ctx context.Context, queue chan<- *Write[T], value T) error {
	w := newWrite(ctx, value)
	select {
	case <-b.stop: // checked alone first: select chooses at random
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
			return webhook.ErrInboxClosed // it came after the last batch
		}
	}
}

// Waiting returns the number of waiting writes.
func (b *Batcher[T]) Waiting() int { return len(b.urgent) + len(b.normal) }

// Close ends the batcher after what waits has been stored.
func (b *Batcher[T]) Close() {
	b.once.Do(func() { close(b.stop) })
	<-b.stopped
}

func (b *Batcher[T]) run() {
	defer close(b.stopped)
	for b.commitNext() {
		// until it is closed
	}
	for {
		select {
		case w := <-b.urgent:
			b.commit(b.gather(w, nil))
		case w := <-b.normal:
			b.commit(b.gather(nil, w))
		default:
			if b.config.Drain != nil {
				b.config.Drain()
			}
			return
		}
	}
}

// commitNext commits the next batch; false means that the batcher was closed.
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
	if live := StillWanted(batch); len(live) > 0 {
		b.config.Commit(live)
	}
}

// StillWanted leaves out what its caller has given up.
func StillWanted[T any](batch []*Write[T]) []*Write[T] {
	return slices.DeleteFunc(batch, func(w *Write[T]) bool {
		err := w.ctx.Err()
		if err != nil {
			w.Done(err)
		}
		return err != nil
	})
}

// gather makes the next batch, with either urgent or normal in it: everything that
// waits, and of normal writes what the limit allows.
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

// gatherUrgent takes what waits already, and what comes while that is worth waiting
// for.
func (b *Batcher[T]) gatherUrgent(batch []*Write[T]) []*Write[T] {
	for len(batch) < maxBatch {
		select {
		case w := <-b.urgent:
			batch = append(batch, w)
			continue
		default:
		}
		if b.config.Wait == nil {
			return batch
		}
		wait := b.config.Wait(batch)
		if wait <= 0 {
			return batch
		}
		timer := time.NewTimer(wait)
		select {
		case w := <-b.urgent:
			batch = append(batch, w)
		case <-timer.C: // Wait says whether it goes on waiting
		case <-b.stop:
			timer.Stop()
			return batch
		}
		timer.Stop()
	}
	return batch
}

// gatherNormal takes what waits already, and what goroutines that can run now are
// about to ask for: it lets them go first, as long as that brings anything. It waits
// for nothing else.
func (b *Batcher[T]) gatherNormal(batch []*Write[T], first *Write[T]) []*Write[T] {
	left, bytes := maxBatch, 0
	if b.config.Limit != nil {
		left = b.config.Limit(batch, time.Since(first.since))
	}
	batch = append(batch, first)
	left--
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
