package dispensarytest

import (
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
)

// halt takes deliveries out of the schedule that wait for an attempt: from now on
// none is announced or made. For those whose attempt is under way it decides only
// that no other one follows. The caller holds mu.
func (s *sender) halt(which func(*delivery) bool, why func(*delivery)) {
	dropped := make(map[*clock.Task]bool)
	for _, d := range s.deliveries.Span(deliveriesByAge, stillDue).Created().All() {
		if !which(d) {
			continue
		}
		s.change(d.ID, func(d *delivery) {
			why(d)
			d.NextAttemptAt, d.held = time.Time{}, false
		})
		dropped[s.tasks[d.ID]] = true
		s.held = slices.DeleteFunc(s.held, func(id string) bool { return id == d.ID })
	}
	s.srv.clock.Forget(dropped)
}

// stopAll is halt for what ends with the endpoint. The caller holds mu.
func (s *sender) stopAll() {
	s.halt(func(*delivery) bool { return true }, func(d *delivery) { d.Stopped = true })
}

// revoke ends what an integration is still to be sent, but for the news that its key
// was revoked: that this one has all its attempts is an assumption. API section:
// "Webhooks" 6.
func (s *sender) revoke(integrationID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.announce()
	s.halt(func(d *delivery) bool {
		return d.IntegrationID == integrationID && d.EventType != ClinicKeyRevoked
	}, func(d *delivery) { d.Revoked = true })
}

// resume attempts again what stopped with the endpoint and has attempts left. The
// caller holds mu.
func (s *sender) resume() {
	stopped := s.deliveries.Where(func(d *delivery) bool {
		return d.Stopped && !d.Delivered && !s.closed && len(d.Attempts) <= len(s.srv.reads().retrySchedule)
	})
	for _, d := range stopped {
		s.schedule(s.change(d.ID, func(d *delivery) { d.Stopped, d.NextAttemptAt = false, s.srv.clock.Now() }))
	}
	s.announce()
}

// blame disables the endpoint on 410 and after 24 hours of failure. The caller
// holds mu.
func (s *sender) blame(a Attempt, now time.Time) {
	ep := s.endpoint
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
