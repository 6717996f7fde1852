package webhooks

import (
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// halt takes deliveries out of the schedule that wait for an attempt: from now on
// none is announced or made. For those whose attempt is under way it decides only
// that no other one follows. The caller holds mu.
func (s *Sender) halt(which func(*Entry) bool, why func(*Entry)) {
	dropped := make(map[*clock.Task]bool)
	for _, d := range s.Deliveries.Span(deliveriesByAge, stillDue).Created().All() {
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

// stopAll is halt for what ends with the endpoint. The caller holds mu.
func (s *Sender) stopAll() {
	s.halt(func(*Entry) bool { return true }, func(d *Entry) { d.Stopped = true })
}

// Revoke ends what an integration is still to be sent, but for the news that its key
// was revoked: that this one has all its attempts is an assumption. API section:
// "Webhooks" 6.
func (s *Sender) Revoke(integrationID string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	defer s.announce()
	s.halt(func(d *Entry) bool {
		return d.IntegrationID == integrationID && d.EventType != model.ClinicKeyRevoked
	}, func(d *Entry) { d.Revoked = true })
}

// Resume attempts again what stopped with the endpoint and has attempts left. The
// caller holds mu.
func (s *Sender) Resume() {
	stopped := s.Deliveries.Where(func(d *Entry) bool {
		return d.Stopped && !d.Delivered && !s.closed && len(d.Attempts) <= len(s.Behaviors.Get().RetrySchedule)
	})
	for _, d := range stopped {
		s.schedule(s.change(d.ID, func(d *Entry) { d.Stopped, d.NextAttemptAt = false, s.Clock.Now() }))
	}
	s.announce()
}

// blame disables the endpoint on 410 and after 24 hours of failure. The caller
// holds mu.
func (s *Sender) blame(a model.Attempt, now time.Time) {
	ep := s.Endpoint
	switch {
	case ep == nil || ep.Disabled:
	case a.Status == http.StatusGone:
		ep.Disabled, ep.Reason = true, "it answered 410"
		s.stopAll()
	case ep.FailingSince.IsZero():
		ep.FailingSince = now
	case now.Sub(ep.FailingSince) > failingLimit:
		ep.Disabled, ep.Reason = true, "attempts kept failing for more than 24 hours"
		s.stopAll()
	}
}
