package webhooks

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Forget drops deliveries that are not kept any more: with their event after 30 days,
// and the oldest beyond the limit. What is still due is kept beyond that. Why events
// were not sent is forgotten with the events. The caller holds mu.
func (s *Sender) Forget(now time.Time, events []string) {
	for _, id := range events {
		s.Skips.Remove(id)
	}
	for _, due := range []string{stillDue, notDue} {
		for {
			span := s.Deliveries.Span(deliveriesByAge, due)
			if span.Len() == 0 {
				break
			}
			oldest := span.Ascending().Part(0, 1)[0]
			if now.Sub(oldest.Event.CreatedAt) <= store.Retention && (due == stillDue || span.Len() <= s.EventLimit) {
				break
			}
			s.Deliveries.Remove(oldest.ID)
		}
	}
}

// DeliveryQuery is what a clinic's list of deliveries is asked for.
type DeliveryQuery struct {
	Clinic, Event, Delivered string
	Days                     store.Days
	Field                    string
	Descending               bool
}

// List passes on what a query finds, with one row for each attempt where that is asked
// for. The list is good until read returns.
func (s *Sender) List(now time.Time, asked DeliveryQuery, attempts bool, read func(table.List[*Entry])) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Forget(now, nil)
	if attempts {
		read(asked.attempts(&s.Deliveries))
		return
	}
	read(asked.list(&s.Deliveries))
}

// list reads the list off the orders of the table.
func (q DeliveryQuery) list(rows *table.Table[*Entry]) table.List[*Entry] {
	within := func(d *Entry) int { return q.Days.Place(d.Latest().At) }
	every, held := rows.Span(deliveriesByClinic, q.Clinic), rows.SpanWithin(deliveriesByTime, within, q.Clinic)
	if q.Delivered != "" {
		every, held = rows.Span(deliveriesByOutcome, q.Clinic, q.Delivered), rows.SpanWithin(outcomesByTime, within, q.Clinic, q.Delivered)
	}
	switch {
	case q.Event != "":
		few := table.Keep(rows.Span(deliveriesByEventID, q.Clinic, q.Event).Created().All(), q.keeps)
		slices.SortStableFunc(few, q.compare)
		return table.Rows(few)
	case q.Field == "event_id":
		return rows.Span(deliveriesByEventID, q.Clinic).Sorted(q.Descending).Keep(held.Len(), q.keeps)
	case q.Field != "" || q.Descending:
		return held.Sorted(q.Descending)
	case held.Len() == every.Len():
		return every.Created()
	default:
		return held.Created()
	}
}

func (q DeliveryQuery) keeps(d *Entry) bool {
	return q.Days.Holds(d.Latest().At) && (q.Event == "" || q.Event == d.EventID) &&
		(q.Delivered == "" || q.Delivered == strconv.FormatBool(d.Delivered))
}

// compare sorts as the list is asked to be sorted.
func (q DeliveryQuery) compare(a, b *Entry) int {
	if q.Descending {
		a, b = b, a
	}
	switch {
	case q.Field == "event_id":
		return strings.Compare(a.EventID, b.EventID)
	case q.Field != "" || q.Descending:
		return a.Latest().At.Compare(b.Latest().At)
	}
	return 0
}

// attempts lists one row for each attempt. It walks all deliveries.
func (q DeliveryQuery) attempts(rows *table.Table[*Entry]) table.List[*Entry] {
	var log []*Entry
	for d := range rows.All() {
		if d.clinicID == q.Clinic {
			log = append(log, table.Keep(d.byAttempt(), q.keeps)...)
		}
	}
	slices.SortStableFunc(log, q.compare)
	return table.Rows(log)
}

// All returns the deliveries that are kept, in the order of their events.
func (s *Sender) All() []model.Delivery {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Forget(s.Clock.Now(), nil)
	all := make([]model.Delivery, 0, s.Deliveries.Len())
	for d := range s.Deliveries.All() {
		all = append(all, d.snapshot())
	}
	return all
}

// Skipped returns the events that were not sent, sorted by event id.
func (s *Sender) Skipped() []model.Skip {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	var skips []model.Skip
	for skip := range s.Skips.All() {
		skips = append(skips, *skip)
	}
	slices.SortFunc(skips, func(a, b model.Skip) int { return strings.Compare(a.EventID, b.EventID) })
	return skips
}
