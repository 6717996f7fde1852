package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// MemoryConfig is what a [MemoryInbox] is made of. Handle is required;
// everything else has a default.
type MemoryConfig struct {
	// Handle handles an event; usually it is the Dispatch method of a [Router].
	// Its context is not that of the request that brought the event: it ends
	// with HandlerTimeout, or when Close gives up.
	Handle HandlerFunc

	// Workers is how many events are handled at a time; 0 means
	// [DefaultWorkers].
	Workers int

	// MaxEvents and MaxBytes bound what is held, dead letters included: the
	// number of events, 0 meaning 10,000, and the size of their bodies, 0
	// meaning 64 MiB. What does not fit is not accepted, so the platform sends
	// it again.
	MaxEvents int
	MaxBytes  int64

	// MaxKeys is how many keys of handled events are remembered, to recognise
	// duplicates, and of how many objects the newest event is; 0 means 100,000.
	// The oldest are forgotten first.
	MaxKeys int

	// MaxAttempts, BackOff and MaxBackOff are those of a [RetryPolicy], with
	// other defaults, as a process must not wait long for its end: 0 means 10,
	// a second and five minutes.
	MaxAttempts         int
	BackOff, MaxBackOff time.Duration

	// HandlerTimeout ends the context of an attempt; 0 means
	// [DefaultHandlerTimeout]. A handler that ignores its context keeps its
	// worker.
	HandlerTimeout time.Duration

	// Order and Stale are those of a [Work].
	Order SubjectFunc
	Stale StalePolicy

	// Logger is told of every attempt: event id and type, attempt, outcome, and
	// the kind of error. The text of a handler's error is not logged, as it may
	// repeat patient data; Observe has it. Nil means silence.
	Logger *slog.Logger

	// Begin and Observe are those of a [Work].
	Begin   func(context.Context, Task) context.Context
	Observe func(context.Context, Attempt)
}

func (c MemoryConfig) withDefaults() (MemoryConfig, error) {
	if min(c.MaxEvents, c.MaxKeys) < 0 || c.MaxBytes < 0 {
		return c, errors.New("webhook: MemoryConfig holds a negative number")
	}
	orDefault(&c.MaxEvents, 10_000)
	orDefault(&c.MaxBytes, 64<<20)
	orDefault(&c.MaxKeys, 100_000)
	orDefault(&c.MaxAttempts, 10)
	orDefault(&c.MaxBackOff, 5*time.Minute)
	return c, nil
}

func (c MemoryConfig) work() Work {
	return Work{
		Handle:         c.Handle,
		Workers:        c.Workers,
		Retry:          RetryPolicy{MaxAttempts: c.MaxAttempts, BackOff: c.BackOff, MaxBackOff: c.MaxBackOff},
		HandlerTimeout: c.HandlerTimeout,
		Order:          c.Order,
		Stale:          c.Stale,
		Logger:         c.Logger,
		Begin:          c.Begin,
		Observe:        c.Observe,
	}
}

// MemoryInbox is an [Engine] in the memory of the process. It is not durable:
// what was acknowledged and is not yet handled is lost when the process dies,
// and a restarted process, or a second one, does not recognise duplicates. Use
// it for tests, for trying things out, and where every missed event is found in
// another way.
//
// It keeps the other promises of an Engine as long as the process lives; what it
// holds is bounded, and bodies are not sealed. Its timers are those of package
// time, so it works inside testing/synctest.
type MemoryInbox struct {
	config  MemoryConfig
	worker  *Worker
	ctx     context.Context // of all handlers
	cancel  context.CancelFunc
	workers sync.WaitGroup

	// ready holds the lines whose first event workers should take next. Sending
	// never blocks: there is room for a line of every event that may be held,
	// and each line is in it at most once.
	ready chan *line

	mu     sync.Mutex
	held   map[Key]*entry    // waiting, being handled, or dead
	lines  map[Subject]*line // of the events that wait for each other
	bytes  int64             // of the bodies held
	alive  int               // held and not dead
	past   ring[Key, struct{}]
	newest ring[Subject, time.Time]

	checkpoints map[string]*memoryCheckpoint

	closed bool
	idle   chan struct{} // closed once closed and nothing is alive
}

var _ Engine = (*MemoryInbox)(nil)

// NewMemoryInbox returns an inbox whose workers have started. Close it to end
// them.
func NewMemoryInbox(c MemoryConfig) (*MemoryInbox, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	worker, err := NewWorker(c.work())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &MemoryInbox{
		config: c,
		worker: worker,
		ctx:    ctx,
		cancel: cancel,
		ready:  make(chan *line, c.MaxEvents),
		held:   map[Key]*entry{},
		lines:  map[Subject]*line{},
		past:   newRing[Key, struct{}](c.MaxKeys),
		newest: newRing[Subject, time.Time](c.MaxKeys),
		idle:   make(chan struct{}),

		checkpoints: map[string]*memoryCheckpoint{},
	}
	for range worker.Work().Workers {
		m.workers.Go(m.work)
	}
	return m, nil
}

// Accept implements [Inbox]. It fails with [ErrInboxFull] and [ErrInboxClosed].
func (m *MemoryInbox) Accept(ctx context.Context, d Delivery) (Receipt, error) {
	if err := ctx.Err(); err != nil {
		return Receipt{}, err
	}
	e := &entry{delivery: d}
	e.subject, e.object = m.worker.Subjects(d)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return Receipt{}, ErrInboxClosed
	}
	if m.held[d.Key] != nil || m.past.has(d.Key) {
		return Receipt{Duplicate: true}, nil
	}
	size := int64(cap(d.Body))
	if len(m.held) == m.config.MaxEvents || m.bytes+size > m.config.MaxBytes {
		return Receipt{}, ErrInboxFull
	}
	m.held[d.Key] = e
	m.bytes += size
	m.enter(e)
	return Receipt{}, nil
}

// release ends the holding of an event; its key stays known.
func (m *MemoryInbox) release(e *entry) {
	delete(m.held, e.delivery.Key)
	m.bytes -= int64(cap(e.delivery.Body))
	m.past.put(e.delivery.Key, struct{}{})
}

// Close stops accepting, and waits until every event is handled or has become a
// dead letter, with retries and their waits; ctx bounds that. When ctx ends the
// handlers' contexts end too, and Close returns without waiting for them.
//
// If anything is still held, dead letters included, the error is an
// [*UnfinishedError] that gives it back: the platform will not send it again.
// Closing again reports the same.
func (m *MemoryInbox) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.checkIdle()
	m.mu.Unlock()
	select {
	case <-m.idle:
		m.cancel()
		m.workers.Wait()
	case <-ctx.Done():
		m.cancel()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []Delivery
	for _, e := range m.held {
		if e.line != nil {
			e.line.stop()
		}
		left = append(left, e.delivery)
	}
	if len(left) == 0 {
		return nil
	}
	slices.SortFunc(left, func(a, b Delivery) int { return a.ReceivedAt.Compare(b.ReceivedAt) })
	return &UnfinishedError{Deliveries: left}
}

// Format prints the type only: what is held may be patient data.
func (m *MemoryInbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "webhook.MemoryInbox") }

// checkIdle tells Close that there is nothing left to wait for.
func (m *MemoryInbox) checkIdle() {
	if !m.closed || m.alive > 0 {
		return
	}
	select {
	case <-m.idle:
	default:
		close(m.idle)
	}
}
