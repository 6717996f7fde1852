package dispensarytest

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// failingLimit is how long attempts may keep failing before the endpoint is
// disabled. API section: "Webhooks" 8.
const failingLimit = 24 * time.Hour

// sender delivers events to the one webhook endpoint. Deliveries run on the
// clock, never on the caller of a platform action, and one after the other: an
// assumption, the API promises no order.
type sender struct {
	srv    *Server
	client *http.Client
	ctx    context.Context
	stop   context.CancelFunc
	busy   chan struct{} // held during an attempt; its capacity is how many are made at a time

	mu         sync.Mutex
	closed     bool
	endpoint   *Endpoint
	deliveries table.Table[delivery]
	planned    int // how many there ever were
	held       []string
	tasks      map[string]*clock.Task // what the clock holds for a delivery, by its id
	skips      table.Table[Skip]
	changed    chan struct{} // closed and replaced with every change
}

// delivery is one event on its way to one integration. As any row, it is replaced and
// never changed; see [sender.change].
type delivery struct {
	Delivery
	event    Event
	clinicID string // of the integration: whose log has it
	held     bool   // until another delivery has overtaken it
}

func newSender(srv *Server) *sender {
	ctx, stop := context.WithCancel(context.Background())
	client := http.Client{}
	if srv.set.deliveryClient != nil {
		client = *srv.set.deliveryClient
	}
	client.Transport = memhttp.Transport{Network: srv.net, Outside: srv.wayOut(client.Transport)}
	// A redirect is an answer outside 200 and 201.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Timeout = 0
	s := &sender{
		srv: srv, client: &client, ctx: ctx, stop: stop, busy: make(chan struct{}, max(srv.set.parallel, 1)),
		tasks: make(map[string]*clock.Task), changed: make(chan struct{}),
	}
	sortDeliveries(&s.deliveries)
	return s
}

// wayOut is how webhooks leave the process: through the transport of a client
// that was given, else not at all in memory, else through a pool of one's own.
func (s *Server) wayOut(given http.RoundTripper) http.RoundTripper {
	switch {
	case given != nil:
		return given
	case s.set.deliveryClient != nil:
		return http.DefaultTransport
	case s.set.inMemory:
		return nil
	}
	return &http.Transport{MaxIdleConnsPerHost: max(s.set.parallel, 4)}
}

// close ends the attempt under way and everything that is still due.
func (s *sender) close() {
	s.mu.Lock()
	s.closed = true
	s.announce()
	s.mu.Unlock()
	s.stop()
	s.srv.clock.Drop(s)
	for range cap(s.busy) {
		s.busy <- struct{}{} // wait for the attempts to end
	}
	for range cap(s.busy) {
		<-s.busy
	}
	if s.srv.set.deliveryClient == nil {
		s.client.CloseIdleConnections()
	}
}

// announce wakes everyone who waits. The caller holds mu.
func (s *sender) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
	s.srv.changes.Notify()
}

// accept plans the delivery of an event, or notes why there is none. What the platform
// does not keep any more is forgotten.
func (s *sender) accept(e Event, now time.Time, enabled []*integration, refusal string, gone []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.announce()
	s.forget(now, gone)
	switch {
	case s.closed:
		refusal = "the platform was closed"
	case s.endpoint == nil:
		refusal = "no webhook endpoint is registered"
	case s.endpoint.Disabled:
		refusal = "the webhook endpoint is disabled: " + s.endpoint.Reason
	case !slices.Contains(s.endpoint.Types, e.Type):
		refusal = "the webhook endpoint is not subscribed to " + e.Type
	case refusal == "" && len(enabled) == 0:
		refusal = "no integration of the clinic is active"
	}
	if refusal != "" {
		s.skips.Put(e.ID, &Skip{EventID: e.ID, Reason: refusal})
		return
	}
	for _, i := range enabled {
		sent := e
		if sent.ClinicID == "" && s.srv.reads().clinicOnProducts {
			sent.ClinicID = i.clinicID
		}
		s.plan(sent, now, i)
	}
}

// plan schedules the first attempt. The caller holds mu. The attempt does not wait for
// an event that is later than its clock; see [SilenceEventTimes].
func (s *sender) plan(e Event, now time.Time, i *integration) {
	s.planned++
	d := &delivery{event: e, clinicID: i.clinicID, Delivery: Delivery{
		ID:      s.srv.world.id("delivery", uint64(s.planned)),
		EventID: e.ID, EventType: e.Type, IntegrationID: i.id,
	}}
	d.NextAttemptAt = now.Add(s.jitter(d.ID))
	switch f, fires := s.fire(d, DeliveryLost, DeliveryReordered); {
	case !fires:
		s.schedule(d)
	case f.Effect == DeliveryLost:
		d.Lost, d.NextAttemptAt = true, time.Time{}
	default:
		s.hold(d, f)
	}
	s.deliveries.Put(d.ID, d)
}

// change replaces a delivery by what it becomes, and returns that; nil if it is not
// kept any more. The caller holds mu.
func (s *sender) change(id string, become func(d *delivery)) *delivery {
	old, known := s.deliveries.Get(id)
	if !known {
		return nil
	}
	d := *old
	d.Attempts = slices.Clip(d.Attempts)
	become(&d)
	s.deliveries.Put(id, &d)
	return &d
}

// schedule has the next attempt made when it is due. The caller holds mu.
func (s *sender) schedule(d *delivery) {
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
func (s *sender) later(id string, at time.Time, what func(*clock.Task)) {
	t := &clock.Task{Owner: s, At: at}
	t.Run = func() { what(t) }
	s.tasks[id] = t
	s.srv.clock.Push(t)
}

// jitter is how late a first attempt is, where there is disorder.
func (s *sender) jitter(id string) time.Duration {
	if s.srv.set.spread == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	return time.Duration(mix(s.srv.set.disorder^h.Sum64()) % uint64(s.srv.set.spread))
}

// attempt is one slot of the schedule.
func (s *sender) attempt(id string, t *clock.Task) {
	s.busy <- struct{}{}
	defer func() { <-s.busy }()
	target, d := s.target(id, t)
	if target == "" {
		return
	}
	f, _ := s.fire(d, DeliveryForged, DeliveryFuture, DeliveryStale)
	a := s.send(target, d, f)
	s.settle(id, a)
	if a.Err == "" {
		s.repeat(target, d)
	}
	s.release()
}

// send makes one attempt, after the probe where there is one.
func (s *sender) send(target string, d *delivery, f Fault) (a Attempt) {
	if s.srv.reads().probe == ProbeBeforeEach {
		a = s.post(target, nil, s.probeSignature())
	}
	if a.Err == "" {
		a = s.post(target, s.envelope(d), s.spoilt(f))
		a.Fault = f.Effect
	}
	return a
}

// target is where an attempt goes, and what it delivers; "" where there is nowhere to
// go any more, or the delivery was taken out of the schedule since.
func (s *sender) target(id string, t *clock.Task) (string, *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, known := s.deliveries.Get(id)
	if !known || s.tasks[id] != t || d.NextAttemptAt.IsZero() {
		return "", nil
	}
	if !s.closed && s.endpoint != nil && !s.endpoint.Disabled {
		return s.endpoint.URL, d
	}
	s.change(id, func(d *delivery) { d.Stopped, d.NextAttemptAt = true, time.Time{} })
	s.announce()
	return "", nil
}

// settle records an attempt and decides what follows from it.
func (s *sender) settle(id string, a Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.announce()
	now := s.srv.clock.Now()
	switch {
	case a.Err != "":
		s.blame(a, now)
	case s.endpoint != nil:
		s.endpoint.FailingSince = time.Time{}
	}
	delete(s.tasks, id)
	d := s.change(id, func(d *delivery) {
		d.Attempts = append(d.Attempts, a)
		d.NextAttemptAt = time.Time{}
		switch made := len(d.Attempts); {
		case a.Err == "":
			d.Delivered, d.Stopped, d.Revoked = true, false, false
		case s.closed || d.Revoked || made > len(s.srv.reads().retrySchedule):
		case s.endpoint == nil || s.endpoint.Disabled:
			d.Stopped = true
		default:
			d.NextAttemptAt = now.Add(s.srv.reads().retrySchedule[made-1])
		}
	})
	if d != nil && !d.NextAttemptAt.IsZero() {
		s.schedule(d)
	}
}

// envelope is the body of a delivery. API section: "Webhooks" 2.
func (s *sender) envelope(d *delivery) []byte {
	reads := s.srv.reads()
	body := encodeDelivery(&d.event, d.IntegrationID, reads.payloadName)
	if rewrite := s.srv.rewriter(reads); rewrite != nil {
		body = rewrite(body)
	}
	return body
}

// encodeDelivery is an event as it is sent for an integration, in a payload
// where that has a name.
func encodeDelivery(e *Event, integrationID, payloadName string) []byte {
	view := viewEvent(e)
	view.IntegrationID = integrationID
	var payload any = struct {
		Event eventView `json:"event"`
	}{view}
	if payloadName != "" {
		payload = map[string]any{payloadName: payload}
	}
	return encodeOne(payload)
}

// wait is [Server.WaitDelivered].
func (s *sender) wait(ctx context.Context, eventID string) error {
	for {
		s.mu.Lock()
		state, final := s.state(eventID)
		changed := s.changed
		s.mu.Unlock()
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
func (s *sender) state(eventID string) (text string, final bool) {
	if skip, skipped := s.skips.Get(eventID); skipped {
		return skip.Reason, true
	}
	deliveries := s.deliveries.Span(deliveriesByEvent, eventID).Created().All()
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
		case s.srv.clock.Frozen() && d.NextAttemptAt.After(s.srv.clock.Now()):
			parts = append(parts, d.String()+"; the clock is frozen, see Clock.Advance")
		default:
			final = false
			parts = append(parts, d.String())
		}
	}
	return strings.Join(parts, "; "), final
}
