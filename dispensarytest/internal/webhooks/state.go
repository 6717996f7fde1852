package webhooks

import (
	"errors"
	"reflect"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// SenderState is what the webhook sender knows. Its tables are shared with the
// sender.
type SenderState struct {
	Endpoint   *model.Endpoint
	planned    int
	Deliveries table.Table[*Entry]
	skips      table.Table[*model.Skip]
}

// Snapshot shares what the sender knows.
func (s *Sender) Snapshot() SenderState {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	out := SenderState{planned: s.planned, Deliveries: s.Deliveries.Fork(), skips: s.Skips.Fork()}
	if s.Endpoint != nil {
		out.Endpoint = new(*s.Endpoint)
	}
	return out
}

// Restore puts a state in place, and schedules what is still due. Its deliveries are
// not on the clock any more.
func (s *Sender) Restore(from SenderState) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Endpoint, s.held, s.planned = nil, nil, from.planned
	clear(s.tasks)
	s.Deliveries, s.Skips = from.Deliveries.Fork(), from.skips.Fork()
	if from.Endpoint != nil {
		s.Endpoint = new(*from.Endpoint)
	}
	waiting := s.Deliveries.Where((*Entry).isDue)
	s.due = len(waiting)
	for _, d := range waiting {
		// No other delivery is going to overtake it any more.
		s.schedule(s.change(d.ID, func(d *Entry) { d.held = false }))
	}
	s.announce()
}

// Same reports that two states of one sender are the same.
func (s *SenderState) Same(other *SenderState) bool {
	return reflect.DeepEqual(s.Endpoint, other.Endpoint) && s.planned == other.planned &&
		s.Deliveries.Same(&other.Deliveries) && s.skips.Same(&other.skips)
}

// WebhooksFile is what the sender knows as it is saved.
type WebhooksFile struct {
	Endpoint   *model.Endpoint
	Planned    int
	Deliveries []deliveryFile `json:",omitempty"`
	Skips      []*model.Skip  `json:",omitempty"`
}

type deliveryFile struct {
	model.Delivery
	Event *model.Event `json:",omitempty"` // where the world does not have it like this
}

func (s *SenderState) File(w *store.World) WebhooksFile {
	return WebhooksFile{
		Endpoint: s.Endpoint, Planned: s.planned,
		Skips: table.Changed(&s.skips, &table.Table[*model.Skip]{}),
		Deliveries: table.ChangedRows(&s.Deliveries, &table.Table[*Entry]{}, func(d *Entry) deliveryFile {
			file := deliveryFile{Delivery: d.Delivery}
			if kept, _ := w.Events.Get(d.EventID); kept == nil || kept.ClinicID != d.Event.ClinicID {
				file.Event = &d.Event
			}
			return file
		}),
	}
}

func (f WebhooksFile) State(w *store.World) (SenderState, error) {
	state := SenderState{Endpoint: f.Endpoint, planned: f.Planned}
	store.Fill(&state.skips, f.Skips, func(s *model.Skip) string { return s.EventID })
	for _, d := range f.Deliveries {
		event := d.Event
		if event == nil {
			event, _ = w.Events.Get(d.EventID)
		}
		if event == nil {
			return state, errors.New("a delivery without event")
		}
		to, known := w.Integrations.Get(d.IntegrationID)
		if !known {
			return state, errors.New("a delivery without integration")
		}
		state.Deliveries.Put(d.ID, &Entry{Delivery: d.Delivery, clinicID: to.ClinicID, Event: *event})
	}
	state.Deliveries.Fork() // later forks only read
	state.skips.Fork()
	return state, nil
}
