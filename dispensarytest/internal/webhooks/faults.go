package webhooks

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// forgedSecret signs what is to be refused.
const forgedSecret = "not the webhook secret"

// fire asks the faults about a delivery.
func (s *Sender) fire(d *Entry, effects ...model.Effect) (model.Fault, bool) {
	return s.Faults.Fire(d.EventType, s.Clock.Now(), effects...)
}

// signatureOf is how an attempt with this fault is signed; without one, correctly.
func (s *Sender) signatureOf(f model.Fault) Signature {
	lag := f.Delay
	if lag == 0 {
		lag = signatureLag
	}
	switch f.Effect {
	case model.DeliveryStale:
		return Signature{shift: -lag}
	case model.DeliveryFuture:
		return Signature{shift: lag}
	case model.DeliveryForged:
		return Signature{with: forgedSecret}
	}
	return Signature{}
}

func (s *Sender) ProbeSignature() Signature { return Signature{none: s.Behaviors.Get().UnsignedProbe} }

// repeat sends what was delivered once more, as a platform does that did not
// understand the answer. What comes of it changes nothing but the log.
func (s *Sender) repeat(target string, d *Entry) {
	f, fires := s.fire(d, model.DeliveryRepeated)
	if !fires {
		return
	}
	a := s.Post(target, s.envelope(d), Signature{})
	a.Fault = f.Effect
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.change(d.ID, func(d *Entry) { d.Attempts = append(d.Attempts, a) })
	s.announce()
}

// hold keeps a delivery back, so that another one overtakes it. The caller holds
// mu.
func (s *Sender) hold(d *Entry, f model.Fault) {
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
func (s *Sender) release() {
	s.Mu.Lock()
	waiting := slices.Clone(s.held)
	s.Mu.Unlock()
	for _, id := range waiting {
		s.free(id)
	}
}

// free has a delivery that was held back made now, unless it was freed already.
func (s *Sender) free(id string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if d, known := s.Deliveries.Get(id); !known || !d.held || s.closed {
		return
	}
	s.held = slices.DeleteFunc(s.held, func(other string) bool { return other == id })
	s.schedule(s.change(id, func(d *Entry) { d.held, d.NextAttemptAt = false, s.Clock.Now() }))
	s.announce()
}
