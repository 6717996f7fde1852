package webhooks

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// failingLimit is how long attempts may keep failing before the endpoint is
// disabled. API section: "Webhooks" 8.
const failingLimit = 24 * time.Hour

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
	Deliveries table.Table[Entry]
	planned    int // how many there ever were
	held       []string
	tasks      map[string]*clock.Task // what the clock holds for a delivery, by its id
	Skips      table.Table[model.Skip]
	changed    chan struct{} // closed and replaced with every change
}

// Config is what a sender works with.
type Config struct {
	Store      *store.Store
	Clock      *clock.Clock
	Behaviors  *behavior.Current
	Faults     *faults.Set
	Changes    *clock.Notifier
	Network    *memhttp.Network
	App        model.Application
	Given      *http.Client // nil for one of the sender's
	InMemory   bool
	Parallel   int           // attempts at a time; 0 is 1
	Disorder   uint64        // seed of the order of deliveries
	Spread     time.Duration // how late first attempts are at most
	EventLimit int
	Compatible uint64 // seed of the changes that break no receiver; 0 for none
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
	s := &Sender{
		Config: config, client: &client, ctx: ctx, stop: stop, busy: make(chan struct{}, max(config.Parallel, 1)),
		tasks: make(map[string]*clock.Task), changed: make(chan struct{}),
	}
	sortDeliveries(&s.Deliveries)
	return s
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

// Accept plans the delivery of an event, or notes why there is none. What the platform
// does not keep any more is forgotten.
func (s *Sender) Accept(e model.Event, now time.Time, enabled []*model.Integration, refusal string, gone []string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	defer s.announce()
	s.Forget(now, gone)
	switch {
	case s.closed:
		refusal = "the platform was closed"
	case s.Endpoint == nil:
		refusal = "no webhook endpoint is registered"
	case s.Endpoint.Disabled:
		refusal = "the webhook endpoint is disabled: " + s.Endpoint.Reason
	case !slices.Contains(s.Endpoint.Types, e.Type):
		refusal = "the webhook endpoint is not subscribed to " + e.Type
	case refusal == "" && len(enabled) == 0:
		refusal = "no integration of the clinic is active"
	}
	if refusal != "" {
		s.Skips.Put(e.ID, &model.Skip{EventID: e.ID, Reason: refusal})
		return
	}
	for _, i := range enabled {
		sent := e
		if sent.ClinicID == "" && s.Behaviors.Get().ClinicOnProducts {
			sent.ClinicID = i.ClinicID
		}
		s.plan(sent, now, i)
	}
}

// plan schedules the first attempt. The caller holds mu. The attempt does not wait for
// an event that is later than its clock; see the behavior event-times.
func (s *Sender) plan(e model.Event, now time.Time, i *model.Integration) {
	s.planned++
	d := &Entry{Event: e, clinicID: i.ClinicID, Delivery: model.Delivery{
		ID:      s.Store.World.ID("delivery", uint64(s.planned)),
		EventID: e.ID, EventType: e.Type, IntegrationID: i.ID,
	}}
	d.NextAttemptAt = now.Add(s.jitter(d.ID))
	switch f, fires := s.fire(d, model.DeliveryLost, model.DeliveryReordered); {
	case !fires:
		s.schedule(d)
	case f.Effect == model.DeliveryLost:
		d.Lost, d.NextAttemptAt = true, time.Time{}
	default:
		s.hold(d, f)
	}
	s.Deliveries.Put(d.ID, d)
}

// change replaces a delivery by what it becomes, and returns that; nil if it is not
// kept any more. The caller holds mu.
func (s *Sender) change(id string, become func(d *Entry)) *Entry {
	old, known := s.Deliveries.Get(id)
	if !known {
		return nil
	}
	d := *old
	d.Attempts = slices.Clip(d.Attempts)
	become(&d)
	s.Deliveries.Put(id, &d)
	return &d
}

// schedule has the next attempt made when it is due. The caller holds mu.
func (s *Sender) schedule(d *Entry) {
	s.later(d.ID, d.NextAttemptAt, func(t *clock.Task) {
		if cap(s.busy) > 1 {
			go s.attempt(d.ID, t)
			return
		}
		s.attempt(d.ID, t)
	})
}

// later has something done with a delivery at a time, in place of what was to be done
// with it before. The caller holds mu.
func (s *Sender) later(id string, at time.Time, what func(*clock.Task)) {
	t := &clock.Task{Owner: s, At: at}
	t.Run = func() { what(t) }
	s.tasks[id] = t
	s.Clock.Push(t)
}

// jitter is how late a first attempt is, where there is disorder.
func (s *Sender) jitter(id string) time.Duration {
	if s.Spread == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	return time.Duration(ids.Mix(s.Disorder^h.Sum64()) % uint64(s.Spread))
}

// attempt is one slot of the schedule.
func (s *Sender) attempt(id string, t *clock.Task) {
	s.busy <- struct{}{}
	defer func() { <-s.busy }()
	target, d := s.target(id, t)
	if target == "" {
		return
	}
	f, _ := s.fire(d, model.DeliveryForged, model.DeliveryFuture, model.DeliveryStale)
	a := s.send(target, d, f)
	s.settle(id, a)
	if a.Err == "" {
		s.repeat(target, d)
	}
	s.release()
}

// send makes one attempt, after the probe where there is one.
func (s *Sender) send(target string, d *Entry, f model.Fault) (a model.Attempt) {
	if s.Behaviors.Get().Probe == behavior.ProbeBeforeEach {
		a = s.Post(target, nil, s.ProbeSignature())
	}
	if a.Err == "" {
		a = s.Post(target, s.envelope(d), s.signatureOf(f))
		a.Fault = f.Effect
	}
	return a
}

// target is where an attempt goes, and what it delivers; "" where there is nowhere to
// go any more, or the delivery was taken out of the schedule since.
func (s *Sender) target(id string, t *clock.Task) (string, *Entry) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	d, known := s.Deliveries.Get(id)
	if !known || s.tasks[id] != t || d.NextAttemptAt.IsZero() {
		return "", nil
	}
	if !s.closed && s.Endpoint != nil && !s.Endpoint.Disabled {
		return s.Endpoint.URL, d
	}
	s.change(id, func(d *Entry) { d.Stopped, d.NextAttemptAt = true, time.Time{} })
	s.announce()
	return "", nil
}

// settle records an attempt and decides what follows from it.
func (s *Sender) settle(id string, a model.Attempt) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	defer s.announce()
	now := s.Clock.Now()
	switch {
	case a.Err != "":
		s.blame(a, now)
	case s.Endpoint != nil:
		s.Endpoint.FailingSince = time.Time{}
	}
	delete(s.tasks, id)
	d := s.change(id, func(d *Entry) {
		d.Attempts = append(d.Attempts, a)
		d.NextAttemptAt = time.Time{}
		switch made := len(d.Attempts); {
		case a.Err == "":
			d.Delivered, d.Stopped, d.Revoked = true, false, false
		case s.closed || d.Revoked || made > len(s.Behaviors.Get().RetrySchedule):
		case s.Endpoint == nil || s.Endpoint.Disabled:
			d.Stopped = true
		default:
			d.NextAttemptAt = now.Add(s.Behaviors.Get().RetrySchedule[made-1])
		}
	})
	if d != nil && !d.NextAttemptAt.IsZero() {
		s.schedule(d)
	}
}

// envelope is the body of a delivery. API section: "Webhooks" 2.
func (s *Sender) envelope(d *Entry) []byte {
	reads := s.Behaviors.Get()
	body := view.EncodeDelivery(&d.Event, d.IntegrationID, reads.PayloadName)
	if rewrite := view.Rewriter(reads, s.Compatible); rewrite != nil {
		body = rewrite(body)
	}
	return body
}

// Wait is [dispensarytest.Webhooks.WaitDelivered].
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
	if skip, skipped := s.Skips.Get(eventID); skipped {
		return skip.Reason, true
	}
	deliveries := s.Deliveries.Span(deliveriesByEvent, eventID).Created().All()
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
