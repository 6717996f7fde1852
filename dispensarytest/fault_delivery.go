package dispensarytest

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
)

// forgedSecret signs what is to be refused.
const forgedSecret = "not the webhook secret"

// fire asks the faults about a delivery.
func (s *sender) fire(d *delivery, effects ...Effect) (Fault, bool) {
	return s.srv.faults.fire(d.EventType, s.srv.clock.Now(), effects...)
}

// spoilt is how a fault has an attempt signed; no fault signs it well.
func (s *sender) spoilt(f Fault) signature {
	lag := f.Delay
	if lag == 0 {
		lag = signatureLag
	}
	switch f.Effect {
	case DeliveryStale:
		return signature{shift: -lag}
	case DeliveryFuture:
		return signature{shift: lag}
	case DeliveryForged:
		return signature{with: forgedSecret}
	}
	return signature{}
}

func (s *sender) probeSignature() signature { return signature{none: s.srv.reads().unsignedProbe} }

// repeat sends what was delivered once more, as a platform does that did not
// understand the answer. What comes of it changes nothing but the log.
func (s *sender) repeat(target string, d *delivery) {
	f, fires := s.fire(d, DeliveryRepeated)
	if !fires {
		return
	}
	a := s.post(target, s.envelope(d), signature{})
	a.Fault = f.Effect
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(d.ID, func(d *delivery) { d.Attempts = append(d.Attempts, a) })
	s.announce()
}

// hold keeps a delivery back, so that another one overtakes it. The caller holds
// mu.
func (s *sender) hold(d *delivery, f Fault) {
	lag := f.Delay
	if lag == 0 {
		lag = overtaken
	}
	id := d.ID
	d.held = true
	s.held = append(s.held, id)
	d.NextAttemptAt = d.NextAttemptAt.Add(lag)
	s.later(id, d.NextAttemptAt, func(*clock.Task) { s.free(id) })
}

// release frees every delivery that was held back: one has overtaken them.
func (s *sender) release() {
	s.mu.Lock()
	waiting := slices.Clone(s.held)
	s.mu.Unlock()
	for _, id := range waiting {
		s.free(id)
	}
}

// free has a delivery that was held back made now, unless it was freed already.
func (s *sender) free(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, known := s.deliveries.Get(id); !known || !d.held || s.closed {
		return
	}
	s.held = slices.DeleteFunc(s.held, func(other string) bool { return other == id })
	s.schedule(s.change(id, func(d *delivery) { d.held, d.NextAttemptAt = false, s.srv.clock.Now() }))
	s.announce()
}
