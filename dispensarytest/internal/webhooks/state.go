package webhooks

import (
	"errors"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// State is a copy of the sender's data for a snapshot.
type State struct {
	Endpoint   *model.Endpoint
	Planned    int
	Deliveries table.Table[*Entry]
	Skips      table.Table[*Skip]
}

// Check returns an error if a decoded state is damaged.
func (s State) Check() error {
	return errors.Join(table.Check(s.Deliveries), table.Check(s.Skips))
}

// State copies the sender's data.
func (s *Sender) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := State{Planned: s.planned, Deliveries: table.Clone(s.deliveries), Skips: table.Clone(s.skips)}
	if s.endpoint != nil {
		out.Endpoint = new(*s.endpoint)
	}
	return out
}

// Restore replaces the sender's data with a state and schedules its due deliveries. The
// earlier deliveries must be off the clock.
func (s *Sender) Restore(from State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint, s.held, s.planned = nil, nil, from.Planned
	clear(s.tasks)
	s.deliveries, s.skips = table.Clone(from.Deliveries), table.Clone(from.Skips)
	if from.Endpoint != nil {
		s.endpoint = new(*from.Endpoint)
	}
	waiting := table.Where(s.deliveries, (*Entry).isDue)
	s.due = len(waiting)
	for _, d := range waiting {
		// No other delivery will overtake it.
		s.schedule(s.change(d.ID, func(d *Entry) { d.held = false }))
	}
	s.announce()
}
