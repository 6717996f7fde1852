package webhooks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Entry is the delivery of one event to one integration. Like all rows, it is replaced and
// never modified. See [deliveryLog.change].
type Entry struct {
	model.Delivery
	Event    model.Event
	ClinicID string // clinic of the integration, for the log
	held     bool   // until another delivery has overtaken it
}

func (d *Entry) snapshot() model.Delivery {
	copied := d.Delivery
	copied.Attempts = slices.Clone(d.Attempts)
	return copied
}

// byAttempt returns one row for each attempt, with the state of the delivery after it.
func (d *Entry) byAttempt() (rows []*Entry) {
	for i, a := range d.Attempts {
		row := &Entry{Delivery: d.snapshot(), Event: d.Event}
		row.ID = fmt.Sprintf("%s-%d", d.ID, i+1)
		row.Attempts, row.Delivered = row.Attempts[:i+1], a.Err == ""
		if i+1 < len(d.Attempts) {
			row.NextAttemptAt = d.Attempts[i+1].At
		}
		rows = append(rows, row)
	}
	return rows
}

// Fields of the keys of deliveries.
const (
	byClinic = "clinic"
	byEvent  = "event"
	byDue    = "due" // deliveries that wait for an attempt
)

func describe(d *Entry) table.Entry {
	e := table.Entry{ID: d.ID, Keys: []table.Key{{Field: byClinic, Value: d.ClinicID}, {Field: byEvent, Value: d.EventID}}}
	if d.isDue() {
		e.Keys = append(e.Keys, table.Key{Field: byDue})
	}
	return e
}

// deliveryLog contains the deliveries. The sender's mu protects it.
type deliveryLog struct {
	deliveries table.Table[*Entry]
	planned    int // number of deliveries ever planned
	limit      int // number of deliveries to keep
}

// due returns the deliveries that wait for an attempt. The caller holds mu.
func (l *deliveryLog) due() []*Entry { return slices.Clone(table.Of(l.deliveries, byDue, "")) }

// isDue reports whether the delivery waits for an attempt.
func (d *Entry) isDue() bool { return !d.NextAttemptAt.IsZero() }

func (d *Entry) Latest() model.Attempt { return d.Attempts[len(d.Attempts)-1] }

// change replaces a delivery with a modified copy and returns the copy. It returns nil if the
// delivery was deleted. The caller holds mu.
func (l *deliveryLog) change(id string, become func(d *Entry)) *Entry {
	old, known := table.Get(l.deliveries, id)
	if !known {
		return nil
	}
	d := *old
	d.Attempts = slices.Clip(d.Attempts)
	become(&d)
	table.Put(&l.deliveries, &d)
	return &d
}

// forget deletes deliveries 30 days after their event, and the oldest beyond the limit. A due
// delivery is kept beyond the limit. The caller holds mu.
func (l *deliveryLog) forget(now time.Time) {
	for at := 0; at < len(l.deliveries.Rows); {
		d := l.deliveries.Rows[at]
		old := now.Sub(d.Event.CreatedAt) > store.Retention
		if !old && len(l.deliveries.Rows)-len(table.Of(l.deliveries, byDue, "")) <= l.limit {
			return
		}
		if old || !d.isDue() {
			table.Remove(&l.deliveries, d.ID)
		} else {
			at++
		}
	}
}

// List returns the deliveries of a clinic. If attempts is set, it returns one row for each
// attempt.
func (s *Sender) List(now time.Time, clinicID string, attempts bool) (found []*Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	for _, d := range table.Of(s.deliveries, byClinic, clinicID) {
		switch {
		case attempts:
			found = append(found, d.byAttempt()...)
		case len(d.Attempts) > 0:
			found = append(found, d)
		}
	}
	return found
}

// Deliveries implements dispensarytest.Webhooks.
func (s *Sender) Deliveries() []model.Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(s.Clock.Now())
	return table.Map(s.deliveries.Rows, (*Entry).snapshot)
}

// WaitDelivered implements dispensarytest.Webhooks.
func (s *Sender) WaitDelivered(ctx context.Context, eventID string) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		state, final := s.state(eventID)
		switch {
		case final && state == "":
			return nil
		case final:
			return fmt.Errorf("dispensarytest: event %s was not delivered: %s", eventID, state)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("dispensarytest: event %s is not delivered yet: %s: %w", eventID, state, context.Cause(ctx))
		}
	}
}

// state describes the state of an event. "" with final means delivered.
func (s *Sender) state(eventID string) (text string, final bool) {
	s.Store.Look(func(w *store.World) {
		if e, known := table.Get(w.Events, eventID); known {
			text = e.NotSent
		}
	})
	if text != "" {
		return text, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	deliveries := table.Of(s.deliveries, byEvent, eventID)
	if len(deliveries) == 0 {
		return "the event is unknown", true
	}
	final = true
	var parts []string
	for _, d := range deliveries {
		switch {
		case d.Delivered:
			continue
		case d.Lost:
			parts = append(parts, "the fault "+string(model.EffectDeliveryLost)+" prevented the delivery")
		case s.closed:
			parts = append(parts, d.String()+"; the platform was closed")
		case d.NextAttemptAt.IsZero():
			parts = append(parts, d.String())
		case s.Clock.Frozen() && d.NextAttemptAt.After(s.Clock.Now()):
			parts = append(parts, d.String()+"; the clock is frozen, see Clock.Advance")
		default:
			final = false
			parts = append(parts, d.String())
		}
	}
	return strings.Join(parts, "; "), final
}
