package inboxkit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// ErrClaimLost is the error of a function that records an outcome after another worker has
// claimed the event. This happens if the worker's process sent no heartbeat, or if the handler
// ran far beyond its timeout.
var ErrClaimLost = errors.New("engine: another worker has claimed the event as abandoned")

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
// Record stops immediately on [ErrClaimLost] or [webhook.ErrInboxClosed], and after one more
// call once Close no longer waits for handlers. It returns the last error.
func (l *Lifecycle) Record(logger *slog.Logger, lasts time.Duration, record func() error) error {
	end := time.Now().Add(lasts)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := record()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrClaimLost), errors.Is(err, webhook.ErrInboxClosed), time.Now().After(end):
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
