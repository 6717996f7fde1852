// Package webhooks delivers events to the integrator's endpoint. It implements the schedule,
// the requests and their signatures, the delivery log, and the effects of faults on
// deliveries.
package webhooks

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
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
	*poster
	busy chan struct{} // contains one element per running attempt, at most Parallel

	mu sync.Mutex
	deliveryLog
	closed   bool
	endpoint *model.Endpoint
	held     []string
	tasks    map[string]*clock.Task // current task of each delivery, by id
	changed  chan struct{}          // closed and replaced on every change
}

// New returns a sender to restore.
func New(config Config) *Sender {
	return &Sender{
		poster: newPoster(config), busy: make(chan struct{}, max(config.Parallel, 1)),
		tasks: make(map[string]*clock.Task), changed: make(chan struct{}),
		deliveryLog: deliveryLog{limit: config.EventLimit},
	}
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

// CheckEndpoint rejects an invalid URL or unknown event types.
func CheckEndpoint(address string, types []string) error {
	if err := memhttp.CheckURL(address); err != nil {
		return fmt.Errorf("dispensarytest: %w", err)
	}
	for _, t := range types {
		if !slices.Contains(model.EventTypes(), t) {
			return errors.New("dispensarytest: " + closestmatch.Unknown("event type", t, model.EventTypes()))
		}
	}
	return nil
}

// NewEndpoint returns an endpoint subscribed to types, or to all types if there are none.
func NewEndpoint(address string, types []string) *model.Endpoint {
	if len(types) == 0 {
		types = model.EventTypes()
	}
	return &model.Endpoint{URL: address, Types: slices.Clone(types)}
}

// Register implements dispensarytest.Webhooks.
func (s *Sender) Register(address string, types ...string) error {
	if err := CheckEndpoint(address, types); err != nil {
		return err
	}
	if behaviors := s.Behaviors.Get(); behaviors.Is(behavior.ProbeOnRegistration) || behaviors.Is(behavior.ProbeBeforeEach) {
		if a := s.post(address, nil, s.probeSignature()); a.Err != "" {
			return fmt.Errorf("dispensarytest: %s", a.Err)
		}
	}
	defer s.Changes.Notify()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint = NewEndpoint(address, types)
	return nil
}

// receiverOrigin is the origin of handlers from RegisterHandler.
const receiverOrigin = "https://receiver.dispensary.test"

// RegisterHandler implements dispensarytest.Webhooks.
func (s *Sender) RegisterHandler(handler http.Handler, types ...string) error {
	if err := s.Network.Host(receiverOrigin, handler); err != nil {
		return fmt.Errorf("dispensarytest: RegisterHandler: %w", err)
	}
	return s.Register(receiverOrigin+"/webhooks", types...)
}

// Endpoint implements dispensarytest.Webhooks.
func (s *Sender) Endpoint() (model.Endpoint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endpoint == nil {
		return model.Endpoint{}, false
	}
	ep := *s.endpoint
	ep.Types = slices.Clone(ep.Types)
	return ep, true
}

// Enable implements dispensarytest.Webhooks.
func (s *Sender) Enable() error {
	defer s.Changes.Notify()
	s.mu.Lock()
	defer s.mu.Unlock()
	ep := s.endpoint
	if ep == nil {
		return errors.New("dispensarytest: Webhooks.Enable: no webhook endpoint is registered")
	}
	ep.Disabled, ep.Reason, ep.FailingSince = false, "", time.Time{}
	if s.Behaviors.Get().Is(behavior.ResumeAfterEnableResumed) {
		s.resume()
	}
	return nil
}

// resume schedules the deliveries that stopped with the endpoint and have attempts left. The
// caller holds mu.
func (s *Sender) resume() {
	stopped := table.Where(s.deliveries.Rows, func(d *Entry) bool {
		return d.Stopped && !d.Delivered && !s.closed && len(d.Attempts) <= len(s.Behaviors.Get().RetrySchedule())
	})
	for _, d := range stopped {
		s.schedule(s.change(d.ID, func(d *Entry) { d.Stopped, d.NextAttemptAt = false, s.Clock.Now() }))
	}
	s.announce()
}

// State is a copy of the sender's data for a snapshot.
type State struct {
	Endpoint   *model.Endpoint
	Planned    int
	Deliveries table.Table[*Entry]
}

// NewState returns the state of a sender without an endpoint.
func NewState() (s State) {
	_ = s.Check() // it has no rows
	return s
}

// Check indexes a decoded state. It returns an error if the state is damaged.
func (s *State) Check() error { return table.Index(&s.Deliveries, describe) }

// State copies the sender's data.
func (s *Sender) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := State{Planned: s.planned, Deliveries: table.Share(&s.deliveries)}
	if s.endpoint != nil {
		out.Endpoint = new(*s.endpoint)
	}
	return out
}

// Restore replaces the sender's data with a state and schedules its due deliveries. The
// earlier deliveries must be off the clock.
func (s *Sender) Restore(from State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint, s.held, s.planned = nil, nil, from.Planned
	clear(s.tasks)
	s.deliveries = from.Deliveries
	if from.Endpoint != nil {
		s.endpoint = new(*from.Endpoint)
	}
	for _, d := range s.due() {
		// No other delivery will overtake it.
		s.schedule(s.change(d.ID, func(d *Entry) { d.held = false }))
	}
	s.announce()
}
