// Package webhooks delivers events to the integrator's endpoint: the schedule, the
// requests and their signatures, the delivery log, and what faults do to deliveries.
package webhooks

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Sender delivers events to the one webhook endpoint. Deliveries run on the
// clock, never on the caller of a platform action, and one after the other: an
// assumption, the API promises no order.
type Sender struct {
	Config
	client *http.Client
	ctx    context.Context
	stop   context.CancelFunc
	busy   chan struct{} // held during an attempt; its capacity is how many are made at a time

	Mu         sync.Mutex
	closed     bool
	Endpoint   *model.Endpoint
	Deliveries table.Table[*Entry]
	due        int // how many deliveries wait for an attempt
	planned    int // how many there ever were
	held       []string
	tasks      map[string]*clock.Task // what the clock holds for a delivery, by its id
	Skips      table.Table[*model.Skip]
	changed    chan struct{} // closed and replaced with every change
}

func New(config Config) *Sender {
	ctx, stop := context.WithCancel(context.Background())
	client := http.Client{}
	if config.Given != nil {
		client = *config.Given
	}
	client.Transport = memhttp.Transport{Network: config.Network, Outside: config.outside(client.Transport)}
	// A redirect is an answer outside 200 and 201.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Timeout = 0
	return &Sender{
		Config: config, client: &client, ctx: ctx, stop: stop, busy: make(chan struct{}, max(config.Parallel, 1)),
		tasks: make(map[string]*clock.Task), changed: make(chan struct{}),
	}
}

// Close ends the attempt under way and everything that is still due.
func (s *Sender) Close() {
	s.Mu.Lock()
	s.closed = true
	s.announce()
	s.Mu.Unlock()
	s.stop()
	s.Clock.Drop(s)
	for range cap(s.busy) {
		s.busy <- struct{}{} // wait for the attempts to end
	}
	for range cap(s.busy) {
		<-s.busy
	}
	if s.Given == nil {
		s.client.CloseIdleConnections()
	}
}

// announce wakes everyone who waits. The caller holds mu.
func (s *Sender) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
	s.Changes.Notify()
}

// change replaces a delivery by what it becomes, and returns that; nil if it is not
// kept any more. The caller holds mu.
func (s *Sender) change(id string, become func(d *Entry)) *Entry {
	old, known := s.Deliveries.Rows[id]
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
	table.Put(&s.Deliveries, d.ID, d)
	s.countDue(d.ID, 1)
}

// countDue adds by to due if the delivery waits for an attempt. The caller holds mu.
func (s *Sender) countDue(id string, by int) {
	if d, known := s.Deliveries.Rows[id]; known && d.isDue() {
		s.due += by
	}
}

// Wait waits until an event was delivered for every integration it concerns; the error
// says what happened instead.
func (s *Sender) Wait(ctx context.Context, eventID string) error {
	for {
		s.Mu.Lock()
		state, final := s.state(eventID)
		changed := s.changed
		s.Mu.Unlock()
		switch {
		case final && state == "":
			return nil
		case final:
			return fmt.Errorf("dispensarytest: event %s was not delivered: %s", eventID, state)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("dispensarytest: event %s is not delivered yet: %s: %w", eventID, state, context.Cause(ctx))
		}
	}
}

// state says where an event stands; "" and final is delivered. The caller holds
// mu.
func (s *Sender) state(eventID string) (text string, final bool) {
	if skip, skipped := s.Skips.Rows[eventID]; skipped {
		return skip.Reason, true
	}
	deliveries := table.Where(s.Deliveries, func(d *Entry) bool { return d.EventID == eventID })
	if len(deliveries) == 0 {
		return "there is no such event", true
	}
	final = true
	var parts []string
	for _, d := range deliveries {
		switch {
		case d.Delivered:
			continue
		case d.Lost:
			parts = append(parts, "it was lost on the way, see DeliveryLost")
		case s.closed:
			parts = append(parts, d.String()+"; the platform was closed")
		case d.NextAttemptAt.IsZero():
			parts = append(parts, d.String())
		case s.Clock.Frozen() && d.NextAttemptAt.After(s.Clock.Now()):
			parts = append(parts, d.String()+"; the clock is frozen, see Clock.Advance")
		default:
			final = false
			parts = append(parts, d.String())
		}
	}
	return strings.Join(parts, "; "), final
}

// Stopped reports that the sender stopped for good.
func (s *Sender) Stopped() bool { return s.ctx.Err() != nil }
