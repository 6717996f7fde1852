// Package webhooks delivers events to the integrator's endpoint. It implements the schedule,
// the requests and their signatures, the delivery log, and the effects of faults on
// deliveries.
package webhooks

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Config contains the collaborators and options of a sender.
type Config struct {
	Store      *store.Store
	Clock      *clock.Clock
	Behaviors  *rules.Current
	Faults     *faults.Set
	Changes    *clock.Notifier
	Network    *memhttp.Network
	App        model.Application
	Given      *http.Client // nil for the sender's own client
	InMemory   bool
	Parallel   int // concurrent attempts, or 0 for 1
	EventLimit int
}

// Sender delivers events to the one webhook endpoint. Deliveries run on the clock and never on
// the goroutine of a platform action. They run one after the other. The order is an
// assumption, because the API promises none.
type Sender struct {
	Config
	client *http.Client
	ctx    context.Context
	stop   context.CancelFunc
	busy   chan struct{} // contains one element per running attempt, at most Parallel

	mu         sync.Mutex
	closed     bool
	endpoint   *model.Endpoint
	deliveries table.Table[*Entry]
	due        int // number of deliveries that wait for an attempt
	planned    int // number of deliveries ever planned
	held       []string
	tasks      map[string]*clock.Task // current task of each delivery, by id
	skips      table.Table[*Skip]
	changed    chan struct{} // closed and replaced on every change
}

func New(config Config) *Sender {
	ctx, stop := context.WithCancel(context.Background())
	client := http.Client{}
	if config.Given != nil {
		client = *config.Given
	}
	client.Transport = memhttp.Transport{Network: config.Network, Outside: config.outside(client.Transport)}
	// A redirect is a response other than 200 and 201.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Timeout = 0
	return &Sender{
		Config: config, client: &client, ctx: ctx, stop: stop, busy: make(chan struct{}, max(config.Parallel, 1)),
		tasks: make(map[string]*clock.Task), changed: make(chan struct{}),
	}
}

// outside returns the transport for webhooks that leave the process: the transport of the
// given client, or else none in memory, or else a new pool.
func (c Config) outside(given http.RoundTripper) http.RoundTripper {
	switch {
	case given != nil:
		return given
	case c.Given != nil:
		return http.DefaultTransport
	case c.InMemory:
		return nil
	}
	return &http.Transport{MaxIdleConnsPerHost: max(c.Parallel, 4)}
}

// Close cancels the running attempt and all due deliveries.
func (s *Sender) Close() {
	s.mu.Lock()
	s.closed = true
	s.announce()
	s.mu.Unlock()
	s.stop()
	s.Clock.Drop(s)
	for range cap(s.busy) {
		s.busy <- struct{}{} // wait for the running attempts
	}
	for range cap(s.busy) {
		<-s.busy
	}
	if s.Given == nil {
		s.client.CloseIdleConnections()
	}
}

// announce wakes all waiting callers. The caller holds mu.
func (s *Sender) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
	s.Changes.Notify()
}

// change replaces a delivery with a modified copy and returns the copy. It returns nil if the
// delivery was deleted. The caller holds mu.
func (s *Sender) change(id string, become func(d *Entry)) *Entry {
	old, known := s.deliveries.Rows[id]
	if !known {
		return nil
	}
	d := *old
	d.Attempts = slices.Clip(d.Attempts)
	become(&d)
	s.put(&d)
	return &d
}

// put stores a delivery. The caller holds mu.
func (s *Sender) put(d *Entry) {
	s.countDue(d.ID, -1)
	table.Put(&s.deliveries, d.ID, d)
	s.countDue(d.ID, 1)
}

// countDue adds by to due if the delivery waits for an attempt. The caller holds mu.
func (s *Sender) countDue(id string, by int) {
	if d, known := s.deliveries.Rows[id]; known && d.isDue() {
		s.due += by
	}
}
