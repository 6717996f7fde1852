package dispensarytest

import (
	"maps"
	"slices"
)

// senderState is what the webhook sender knows, all of it copied.
type senderState struct {
	endpoint *Endpoint
	all      []delivery
	skips    map[string]string
}

// snapshot copies the sender. The attempts of a delivery are only ever added to.
func (s *sender) snapshot() senderState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := senderState{skips: maps.Clone(s.skips), all: make([]delivery, 0, len(s.all))}
	for _, d := range s.all {
		copied := *d
		copied.Attempts = slices.Clip(d.Attempts)
		out.all = append(out.all, copied)
	}
	if s.endpoint != nil {
		out.endpoint = new(*s.endpoint)
	}
	return out
}

// restore puts a copied state in place, and schedules what is still due. Its
// deliveries are not on the clock any more.
func (s *sender) restore(from senderState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint, s.all, s.held, s.byEvent = nil, nil, nil, make(map[string][]*delivery)
	if s.skips = maps.Clone(from.skips); s.skips == nil {
		s.skips = make(map[string]string)
	}
	if from.endpoint != nil {
		s.endpoint = new(*from.endpoint)
	}
	for _, copied := range from.all {
		d := &copied
		d.held = false // nobody is about to overtake it any more
		s.all = append(s.all, d)
		s.byEvent[d.EventID] = append(s.byEvent[d.EventID], d)
		if !d.NextAttemptAt.IsZero() {
			s.schedule(d)
		}
	}
	s.announce()
}
