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

// ErrClaimLost is what an engine's function fails with that records the outcome of
// an event which was given to another worker meanwhile: its worker gave no sign of
// life, or its handler took far longer than its time-out.
var ErrClaimLost = errors.New("engine: the event was taken for abandoned and given to another worker")

// LeaseMargin is how much longer than its time-out a handler may take before its
// event is taken for abandoned: a handler whose context has ended needs a moment to
// stop.
const LeaseMargin = 30 * time.Second

// stopPatience is how long a handler may take to stop once its context has ended,
// and the storage after that.
const stopPatience = 2 * time.Second

// Lifecycle is how an engine stops: it begins nothing any more, lets handlers
// finish until the context of Close ends, and then ends theirs.
type Lifecycle struct {
	// Patience is how long a handler may take to stop once its context has ended,
	// and the storage after that; it must not change after the first use.
	Patience time.Duration

	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex // keeps Begin from adding to tasks while Close waits for them
	tasks    sync.WaitGroup
	stopping chan struct{} // closed first of all
	ended    chan struct{} // closed last of all
	once     sync.Once
	err      error // of the end
}

// NewLifecycle returns the lifecycle of an engine that runs.
func NewLifecycle() *Lifecycle {
	l := &Lifecycle{Patience: stopPatience, stopping: make(chan struct{}), ended: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Context is that of all handlers. It ends when Close does not wait for them any
// longer.
func (l *Lifecycle) Context() context.Context { return l.ctx }

// Stopping is closed when the engine is closed.
func (l *Lifecycle) Stopping() <-chan struct{} { return l.stopping }

// Stopped reports that the engine was closed.
func (l *Lifecycle) Stopped() bool {
	select {
	case <-l.stopping:
		return true
	default:
		return false
	}
}

// Begin counts a task, which Close waits for until done is called; false means that
// the engine was closed.
func (l *Lifecycle) Begin() (done func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Stopped() {
		return nil, false
	}
	l.tasks.Add(1)
	return l.tasks.Done, true
}

// Go runs a task that is followed by others of its kind; Close waits for it, and it
// may begin while Close waits.
func (l *Lifecycle) Go(task func()) { l.tasks.Go(task) }

// Close stops the engine. It waits for drain, which waits for what starts tasks, and
// then for the tasks; when ctx ends it ends their context, and what does not stop is
// left behind. Then it calls end, which ends the rest in the order in which it uses
// each other, and returns its error.
//
// It returns at the latest a few seconds after the end of ctx, with the error of
// ctx if the storage does not answer by then. The rest ends by itself then, and can
// be waited for by closing again.
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
		return fmt.Errorf("engine: closing goes on: %w", ctx.Err())
	}
}

// drain waits for the tasks that run. When ctx ends their context ends, and what
// does not stop is left behind.
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

// Record calls record until it succeeds, for as long as the claim on the event
// lasts: a handler's work that is done should not be done again because the storage
// failed for a moment. It gives up at once where that can not succeed any more, with
// [ErrClaimLost] or [webhook.ErrInboxClosed], and after one more try when Close does
// not wait any longer.
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
		logger.LogAttrs(l.ctx, slog.LevelWarn, "webhook inbox cannot record an outcome, and tries again", slog.String("reason", err.Error()))
		select {
		case <-time.After(wait):
		case <-l.ctx.Done():
			end = time.Time{} // once more, and no further
		}
	}
}
