package dispensarytest

import (
	"errors"
	"reflect"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// senderState is what the webhook sender knows. Its tables are shared with the
// sender.
type senderState struct {
	endpoint   *Endpoint
	planned    int
	deliveries table.Table[delivery]
	skips      table.Table[Skip]
}

// snapshot shares what the sender knows.
func (s *sender) snapshot() senderState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := senderState{planned: s.planned, deliveries: s.deliveries.Fork(), skips: s.skips.Fork()}
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
	s.deliveries, s.skips = from.deliveries.Fork(), from.skips.Fork()
	if s.deliveries.Indexes == nil {
		sortDeliveries(&s.deliveries)
	}
	if from.endpoint != nil {
		s.endpoint = new(*from.endpoint)
	}
	for _, d := range s.deliveries.Span(deliveriesByAge, stillDue).Created().All() {
		// Nobody is about to overtake it any more.
		s.schedule(s.change(d.ID, func(d *delivery) { d.held = false }))
	}
	s.announce()
}

// same reports that two states of one sender are the same.
func (s *senderState) same(other *senderState) bool {
	return reflect.DeepEqual(s.endpoint, other.endpoint) && s.planned == other.planned &&
		s.deliveries.Same(&other.deliveries) && s.skips.Same(&other.skips)
}

// webhooksFile is what the sender knows as it is saved.
type webhooksFile struct {
	Endpoint   *Endpoint
	Planned    int
	Deliveries []deliveryFile `json:",omitempty"`
	Skips      []*Skip        `json:",omitempty"`
}

type deliveryFile struct {
	Delivery
	Event *Event `json:",omitempty"` // where the world does not have it like this
}

func (s *senderState) file(w *world) webhooksFile {
	return webhooksFile{
		Endpoint: s.endpoint, Planned: s.planned,
		Skips: table.Changed(&s.skips, &table.Table[Skip]{}),
		Deliveries: table.ChangedRows(&s.deliveries, &table.Table[delivery]{}, func(d *delivery) deliveryFile {
			file := deliveryFile{Delivery: d.Delivery}
			if kept, _ := w.events.Get(d.EventID); kept == nil || kept.ClinicID != d.event.ClinicID {
				file.Event = &d.event
			}
			return file
		}),
	}
}

func (f webhooksFile) state(w *world) (senderState, error) {
	state := senderState{endpoint: f.Endpoint, planned: f.Planned}
	sortDeliveries(&state.deliveries)
	fill(&state.skips, f.Skips, func(s *Skip) string { return s.EventID })
	for _, d := range f.Deliveries {
		event := d.Event
		if event == nil {
			event, _ = w.events.Get(d.EventID)
		}
		if event == nil {
			return state, errors.New("a delivery without event")
		}
		to, known := w.integrations.Get(d.IntegrationID)
		if !known {
			return state, errors.New("a delivery without integration")
		}
		state.deliveries.Put(d.ID, &delivery{Delivery: d.Delivery, clinicID: to.clinicID, event: *event})
	}
	state.deliveries.Fork() // later forks only read
	state.skips.Fork()
	return state, nil
}
