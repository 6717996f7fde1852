package dispensarytest

import (
	"errors"
	"slices"
)

// senderState is what the webhook sender knows. Its tables are shared with the
// sender, whose copies of deliveries are replaced and never changed, as rows are.
type senderState struct {
	endpoint   *Endpoint
	deliveries table[delivery]
	skips      table[Skip]
}

// note remembers that a delivery has changed. The caller holds mu.
func (s *sender) note(d *delivery) {
	if !d.noted {
		d.noted, s.noted = true, append(s.noted, d)
	}
}

// snapshot brings the copies up to date, and shares them.
func (s *sender) snapshot() senderState {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.noted {
		d.noted = false
		s.kept.put(d.ID, d.copied())
	}
	s.noted = nil
	out := senderState{deliveries: s.kept.fork(), skips: s.skips.fork()}
	if s.endpoint != nil {
		out.endpoint = new(*s.endpoint)
	}
	return out
}

// copied is the delivery as it stands. Attempts are only ever added to.
func (d *delivery) copied() *delivery {
	copied := *d
	copied.Attempts = slices.Clip(d.Attempts)
	return &copied
}

// restore puts a state in place, and schedules what is still due. Its deliveries are
// not on the clock any more.
func (s *sender) restore(from senderState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint, s.all, s.held, s.noted, s.byEvent = nil, nil, nil, nil, make(map[string][]*delivery)
	s.kept, s.skips = from.deliveries.fork(), from.skips.fork()
	if from.endpoint != nil {
		s.endpoint = new(*from.endpoint)
	}
	for kept := range from.deliveries.all() {
		d := kept.copied()
		d.held = false // nobody is about to overtake it any more
		s.all = append(s.all, d)
		s.byEvent[d.EventID] = append(s.byEvent[d.EventID], d)
		if !d.NextAttemptAt.IsZero() {
			s.schedule(d)
		}
	}
	s.announce()
}

// webhooksFile is what the sender knows as it is saved.
type webhooksFile struct {
	Endpoint   *Endpoint
	Deliveries rowsFile[deliveryFile]
	Skips      rowsFile[*Skip]
}

type deliveryFile struct {
	Delivery
	Event Event
}

// file is what the sender knows that it did not know earlier.
func (s *senderState) file(before *senderState) webhooksFile {
	return webhooksFile{
		Endpoint:   s.endpoint,
		Deliveries: changed(&s.deliveries, &before.deliveries, func(d *delivery) deliveryFile { return deliveryFile{d.Delivery, d.event} }),
		Skips:      changedRows(&s.skips, &before.skips),
	}
}

func (f *webhooksFile) merge(changes webhooksFile) error {
	f.Endpoint = changes.Endpoint
	return errors.Join(f.Deliveries.merge(changes.Deliveries), f.Skips.merge(changes.Skips))
}

func (f webhooksFile) state() senderState {
	state := senderState{endpoint: f.Endpoint}
	fill(&state.skips, f.Skips.Rows, func(s *Skip) string { return s.EventID })
	for _, d := range f.Deliveries.Rows {
		state.deliveries.put(d.ID, &delivery{Delivery: d.Delivery, event: d.Event})
	}
	state.deliveries.fork() // later forks only read
	state.skips.fork()
	return state
}
