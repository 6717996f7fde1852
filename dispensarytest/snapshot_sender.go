package dispensarytest

import "errors"

// senderState is what the webhook sender knows. Its tables are shared with the
// sender.
type senderState struct {
	endpoint   *Endpoint
	planned    int
	deliveries table[delivery]
	skips      table[Skip]
}

// snapshot shares what the sender knows.
func (s *sender) snapshot() senderState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := senderState{planned: s.planned, deliveries: s.deliveries.fork(), skips: s.skips.fork()}
	if s.endpoint != nil {
		out.endpoint = new(*s.endpoint)
	}
	return out
}

// restore puts a state in place, and schedules what is still due. Its deliveries are
// not on the clock any more.
func (s *sender) restore(from senderState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint, s.held, s.planned = nil, nil, from.planned
	clear(s.tasks)
	s.deliveries, s.skips = from.deliveries.fork(), from.skips.fork()
	if s.deliveries.orders == nil {
		sortDeliveries(&s.deliveries)
	}
	if from.endpoint != nil {
		s.endpoint = new(*from.endpoint)
	}
	for _, d := range s.deliveries.span(deliveriesByAge, stillDue).created().all() {
		// Nobody is about to overtake it any more.
		s.schedule(s.change(d.ID, func(d *delivery) { d.held = false }))
	}
	s.announce()
}

// webhooksFile is what the sender knows as it is saved.
type webhooksFile struct {
	Endpoint   *Endpoint
	Planned    int
	Deliveries rowsFile[deliveryFile]
	Skips      rowsFile[*Skip]
}

type deliveryFile struct {
	Delivery
	ClinicID string
	Event    Event
}

// file is what the sender knows that it did not know earlier.
func (s *senderState) file(before *senderState) webhooksFile {
	return webhooksFile{
		Endpoint:   s.endpoint,
		Planned:    s.planned,
		Deliveries: changed(&s.deliveries, &before.deliveries, func(d *delivery) deliveryFile { return deliveryFile{d.Delivery, d.clinicID, d.event} }),
		Skips:      changedRows(&s.skips, &before.skips),
	}
}

func (f *webhooksFile) merge(changes webhooksFile) error {
	f.Endpoint, f.Planned = changes.Endpoint, changes.Planned
	return errors.Join(f.Deliveries.merge(changes.Deliveries), f.Skips.merge(changes.Skips))
}

func (f webhooksFile) state() senderState {
	state := senderState{endpoint: f.Endpoint, planned: f.Planned}
	sortDeliveries(&state.deliveries)
	fill(&state.skips, f.Skips.Rows, func(s *Skip) string { return s.EventID })
	for _, d := range f.Deliveries.Rows {
		state.deliveries.put(d.ID, &delivery{Delivery: d.Delivery, clinicID: d.ClinicID, event: d.Event})
	}
	state.deliveries.fork() // later forks only read
	state.skips.fork()
	return state
}
