package webhooks

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// overtaken is the default delay of a reordered delivery.
const overtaken = time.Minute

// Accept plans the deliveries of an event, or returns the reason for sending none.
func (s *Sender) Accept(e model.Event, now time.Time, enabled []*store.Integration, rejection string) (notSent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.announce()
	s.forget(now)
	switch {
	case s.closed:
		rejection = "the platform was closed"
	case s.endpoint == nil:
		rejection = "no webhook endpoint is registered"
	case s.endpoint.Disabled:
		rejection = "the webhook endpoint is disabled: " + s.endpoint.Reason
	case !slices.Contains(s.endpoint.Types, e.Type):
		rejection = "the webhook endpoint is not subscribed to " + e.Type
	}
	if rejection != "" {
		return rejection
	}
	for _, i := range enabled {
		sent := e
		if sent.ClinicID == "" && s.Behaviors.Get().Is(behavior.ProductEventClinicPresent) {
			sent.ClinicID = i.ClinicID
		}
		s.plan(sent, now, i)
	}
	return ""
}

// plan schedules the first attempt. The caller holds mu. The attempt does not wait if the
// event is later than the clock. See the behavior event-times.
func (s *Sender) plan(e model.Event, now time.Time, i *store.Integration) {
	s.planned++
	d := &Entry{Event: e, ClinicID: i.ClinicID, Delivery: model.Delivery{
		ID:      s.Store.World.ID("delivery", uint64(s.planned)),
		EventID: e.ID, EventType: e.Type, IntegrationID: i.ID,
	}}
	d.NextAttemptAt = now
	switch f, fires := s.fire(d, model.EffectDeliveryLost, model.EffectDeliveryReordered); {
	case !fires:
		s.schedule(d)
	case f.Effect == model.EffectDeliveryLost:
		d.Lost, d.NextAttemptAt = true, time.Time{}
	default:
		s.hold(d, f)
	}
	table.Put(&s.deliveries, d)
}

// schedule schedules the next attempt of a delivery. The caller holds mu.
func (s *Sender) schedule(d *Entry) {
	s.later(d.ID, d.NextAttemptAt, func(t *clock.Task) {
		if cap(s.busy) > 1 {
			go s.attempt(d.ID, t)
			return
		}
		s.attempt(d.ID, t)
	})
}

// later schedules a task of a delivery, in place of its earlier task. The caller holds mu.
func (s *Sender) later(id string, at time.Time, what func(*clock.Task)) {
	t := &clock.Task{Owner: s, At: at}
	t.Run = func() { what(t) }
	s.tasks[id] = t
	s.Clock.Push(t)
}

// attempt makes one scheduled attempt.
func (s *Sender) attempt(id string, t *clock.Task) {
	s.busy <- struct{}{}
	defer func() { <-s.busy }()
	target, d := s.target(id, t)
	if target == "" {
		return
	}
	f, _ := s.fire(d, model.EffectDeliveryForged, model.EffectDeliveryFuture, model.EffectDeliveryStale)
	a := s.send(target, d, f)
	s.settle(id, a)
	if a.Err == "" {
		s.repeat(target, d)
	}
	s.release()
}

// target returns the URL of an attempt and its delivery. It returns "" if the delivery has
// left the schedule since.
func (s *Sender) target(id string, t *clock.Task) (string, *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, known := table.Get(s.deliveries, id)
	if !known || s.tasks[id] != t || !d.isDue() || s.closed || s.endpoint == nil {
		return "", nil
	}
	return s.endpoint.URL, d
}

// settle records an attempt and decides the next step.
func (s *Sender) settle(id string, a model.Attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.announce()
	now := s.Clock.Now()
	switch {
	case a.Err != "":
		s.blame(a, now)
	case s.endpoint != nil:
		s.endpoint.FailingSince = time.Time{}
	}
	delete(s.tasks, id)
	d := s.change(id, func(d *Entry) {
		d.Attempts = append(d.Attempts, a)
		d.NextAttemptAt = time.Time{}
		switch made := len(d.Attempts); {
		case a.Err == "":
			d.Delivered, d.Stopped, d.Revoked = true, false, false
		case s.closed || d.Revoked || made > len(s.Behaviors.Get().RetrySchedule()):
		case s.endpoint == nil || s.endpoint.Disabled:
			d.Stopped = true
		default:
			d.NextAttemptAt = now.Add(s.Behaviors.Get().RetrySchedule()[made-1])
		}
	})
	if d != nil && !d.NextAttemptAt.IsZero() {
		s.schedule(d)
	}
}

// fire returns the fault that affects a delivery, if any.
func (s *Sender) fire(d *Entry, effects ...model.Effect) (model.Fault, bool) {
	return s.Faults.Fire(d.EventType, s.Clock.Now(), effects...)
}

// repeat sends a delivered event again, like a platform that did not understand the response.
// Its result changes only the log.
func (s *Sender) repeat(target string, d *Entry) {
	f, fires := s.fire(d, model.EffectDeliveryRepeated)
	if !fires {
		return
	}
	a := s.post(target, s.envelope(d), Signature{})
	a.Fault = f.Effect
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(d.ID, func(d *Entry) { d.Attempts = append(d.Attempts, a) })
	s.announce()
}

// hold delays a delivery, so that another one overtakes it. The caller holds mu.
func (s *Sender) hold(d *Entry, f model.Fault) {
	id := d.ID
	d.held = true
	s.held = append(s.held, id)
	d.NextAttemptAt = d.NextAttemptAt.Add(cmp.Or(f.Delay, overtaken))
	s.later(id, d.NextAttemptAt, func(*clock.Task) { s.free(id) })
}

// release frees all held deliveries, because another one has overtaken them.
func (s *Sender) release() {
	s.mu.Lock()
	waiting := slices.Clone(s.held)
	s.mu.Unlock()
	for _, id := range waiting {
		s.free(id)
	}
}

// free schedules a held delivery for now, unless it was freed already.
func (s *Sender) free(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, known := table.Get(s.deliveries, id); !known || !d.held || s.closed {
		return
	}
	s.held = slices.DeleteFunc(s.held, func(other string) bool { return other == id })
	s.schedule(s.change(id, func(d *Entry) { d.held, d.NextAttemptAt = false, s.Clock.Now() }))
	s.announce()
}

// halt removes due deliveries from the schedule. From then on, none of them is announced or
// attempted. If an attempt is running, it only prevents another one. The caller holds mu.
func (s *Sender) halt(which func(*Entry) bool, why func(*Entry)) {
	dropped := make(map[*clock.Task]bool)
	for _, d := range s.due() {
		if !which(d) {
			continue
		}
		s.change(d.ID, func(d *Entry) {
			why(d)
			d.NextAttemptAt, d.held = time.Time{}, false
		})
		dropped[s.tasks[d.ID]] = true
		s.held = slices.DeleteFunc(s.held, func(id string) bool { return id == d.ID })
	}
	s.Clock.Forget(dropped)
}

// stopAll stops all due deliveries with the endpoint. The caller holds mu.
func (s *Sender) stopAll() {
	s.halt(func(*Entry) bool { return true }, func(d *Entry) { d.Stopped = true })
}

// Revoke stops the deliveries of an integration, except the event of the key's revocation.
// That this event keeps all its attempts is an assumption. API section: "Webhooks" 6.
func (s *Sender) Revoke(integrationID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.announce()
	s.halt(func(d *Entry) bool {
		return d.IntegrationID == integrationID && d.EventType != model.EventClinicKeyRevoked
	}, func(d *Entry) { d.Revoked = true })
}

// failingLimit is the maximum period of failing attempts before the endpoint is disabled. API
// section: "Webhooks" 8.
const failingLimit = 24 * time.Hour

// blame disables the endpoint on 410 and after 24 hours of failure. The caller
// holds mu.
func (s *Sender) blame(a model.Attempt, now time.Time) {
	ep := s.endpoint
	switch {
	case ep == nil || ep.Disabled:
	case a.Status == http.StatusGone:
		ep.Disabled, ep.Reason = true, "it responded with 410"
		s.stopAll()
	case ep.FailingSince.IsZero():
		ep.FailingSince = now
	case now.Sub(ep.FailingSince) > failingLimit:
		ep.Disabled, ep.Reason = true, "attempts kept failing for more than 24 hours"
		s.stopAll()
	}
}
