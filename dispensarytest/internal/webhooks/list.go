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
		table.Remove(&s.Skips, id)
	}
	for d := range table.All(s.Deliveries) {
		old := now.Sub(d.Event.CreatedAt) > store.Retention
		if !old && len(s.Deliveries.Rows)-s.due <= s.EventLimit {
			return
		}
		if old || !d.isDue() {
			s.countDue(d.ID, -1)
			table.Remove(&s.Deliveries, d.ID)
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

// List returns the deliveries that a query finds, or one row for each of their attempts.
func (s *Sender) List(now time.Time, asked DeliveryQuery, attempts bool) (found []*Entry) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Forget(now, nil)
	for d := range table.All(s.Deliveries) {
		if d.ClinicID != asked.Clinic || len(d.Attempts) == 0 {
			continue
		}
		rows := []*Entry{d}
		if attempts {
			rows = d.byAttempt()
		}
		for _, row := range rows {
			if asked.keeps(row) {
				found = append(found, row)
			}
		}
	}
	slices.SortStableFunc(found, asked.compare)
	return found
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

// All returns the deliveries that are kept, in the order of their events.
func (s *Sender) All() []model.Delivery {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Forget(s.Clock.Now(), nil)
	all := make([]model.Delivery, 0, len(s.Deliveries.Rows))
	for d := range table.All(s.Deliveries) {
		all = append(all, d.snapshot())
	}
	return all
}

// Skipped returns the events that were not sent, sorted by event id.
func (s *Sender) Skipped() []model.Skip {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	var skips []model.Skip
	for skip := range table.All(s.Skips) {
		skips = append(skips, *skip)
	}
	slices.SortFunc(skips, func(a, b model.Skip) int { return strings.Compare(a.EventID, b.EventID) })
	return skips
}
