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

	// Workers is how many events are handled at a time; 0 means 4.
	Workers int

	// MaxEvents and MaxBytes bound what is held, dead letters included: the
	// number of events, 0 meaning 10,000, and the size of their bodies, 0
	// meaning 64 MiB. What does not fit is not accepted, so the platform sends
	// it again.
	MaxEvents int
	MaxBytes  int64

	// MaxKeys is how many keys of handled events are remembered, to recognise
	// duplicates; 0 means 100,000. The oldest are forgotten first.
	MaxKeys int

	// MaxAttempts is how often an event is tried before it becomes a dead
	// letter; 0 means 10.
	MaxAttempts int

	// BackOff is the wait after the first failed attempt, 0 meaning a second.
	// It doubles with every further one up to MaxBackOff, 0 meaning five
	// minutes. Each wait is shortened at random by up to a half.
	BackOff, MaxBackOff time.Duration

	// HandlerTimeout ends the context of an attempt; 0 means a minute. A
	// handler that ignores its context keeps its worker.
	HandlerTimeout time.Duration

	// Logger is told of every attempt: event id and type, attempt, outcome, and
	// the kind of error. The text of a handler's error is not logged, as it may
	// repeat patient data; Observe has it. Nil means silence.
	Logger *slog.Logger

	// Observe is called after every attempt, for counters and alarms; nil means
	// that nobody is. It runs in the worker.
	Observe func(context.Context, Attempt)
}

func (c MemoryConfig) withDefaults() (MemoryConfig, error) {
	if c.Handle == nil {
		return c, errors.New("webhook: MemoryConfig.Handle is missing")
	}
	if min(c.Workers, c.MaxEvents, c.MaxKeys, c.MaxAttempts) < 0 || c.MaxBytes < 0 ||
		min(c.BackOff, c.MaxBackOff, c.HandlerTimeout) < 0 {
		return c, errors.New("webhook: MemoryConfig holds a negative number")
	}
	orDefault(&c.Workers, 4)
	orDefault(&c.MaxEvents, 10_000)
	orDefault(&c.MaxBytes, 64<<20)
	orDefault(&c.MaxKeys, 100_000)
	orDefault(&c.MaxAttempts, 10)
	orDefault(&c.BackOff, time.Second)
	orDefault(&c.MaxBackOff, 5*time.Minute)
	orDefault(&c.HandlerTimeout, time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func orDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}

// MemoryInbox is an [Inbox] in the memory of the process, with the workers that
// handle its events. It is not durable: what was acknowledged and is not yet
// handled is lost when the process dies, and a restarted process, or a second
// one, does not recognise duplicates. Use it for tests, for trying things out,
// and where every missed event is found in another way.
//
// Every event is handled at least once: a handler that fails or panics is tried
// again with growing waits, and after MaxAttempts the event becomes a dead
// letter, which stays until it is replayed or discarded. Order is not kept.
//
// Its timers are those of package time, so it works inside testing/synctest.
type MemoryInbox struct {
	config  MemoryConfig
	ctx     context.Context // of all handlers
	cancel  context.CancelFunc
	workers sync.WaitGroup

	// ready holds what workers should take next. Sending never blocks: there is
	// room for every event that may be held, and each is in it at most once.
	ready chan *entry

	mu     sync.Mutex
	held   map[Key]*entry // waiting, being handled, or dead
	bytes  int64          // of the bodies held
	alive  int            // held and not dead
	past   keyring        // no longer held
	closed bool
	idle   chan struct{} // closed once closed and nothing is alive
}

// entry is an event that is held.
type entry struct {
	delivery Delivery
	attempts int
	retry    *time.Timer
	death    *DeadLetter // nil while alive
}

// NewMemoryInbox returns an inbox whose workers have started. Close it to end
// them.
func NewMemoryInbox(c MemoryConfig) (*MemoryInbox, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &MemoryInbox{
		config: c,
		ctx:    ctx,
		cancel: cancel,
		ready:  make(chan *entry, c.MaxEvents),
		held:   map[Key]*entry{},
		past:   keyring{limit: c.MaxKeys, known: map[Key]struct{}{}},
		idle:   make(chan struct{}),
	}
	for range c.Workers {
		m.workers.Go(m.work)
	}
	return m, nil
}

// Accept implements [Inbox]. It fails with [ErrInboxFull] and [ErrInboxClosed].
func (m *MemoryInbox) Accept(ctx context.Context, d Delivery) (Receipt, error) {
	if err := ctx.Err(); err != nil {
		return Receipt{}, err
	}
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
	e := &entry{delivery: d}
	m.held[d.Key] = e
	m.bytes += size
	m.alive++
	m.ready <- e
	return Receipt{}, nil
}

// release ends the holding of an event; its key stays known.
func (m *MemoryInbox) release(e *entry) {
	delete(m.held, e.delivery.Key)
	m.bytes -= int64(cap(e.delivery.Body))
	m.past.add(e.delivery.Key)
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
		if e.retry != nil {
			e.retry.Stop()
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

// keyring remembers the last keys it was given.
type keyring struct {
	limit int
	known map[Key]struct{}
	order []Key // a ring, once it has grown to limit
	next  int
}

func (k *keyring) has(key Key) bool {
	_, ok := k.known[key]
	return ok
}

func (k *keyring) add(key Key) {
	if len(k.order) < k.limit {
		k.order = append(k.order, key)
	} else {
		delete(k.known, k.order[k.next])
		k.order[k.next] = key
		k.next = (k.next + 1) % k.limit
	}
	k.known[key] = struct{}{}
}
