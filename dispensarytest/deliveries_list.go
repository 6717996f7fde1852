package dispensarytest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// How deliveries can be listed; see [table.Table.Span].
const (
	deliveriesByEvent   = 0
	deliveriesByAge     = 1 // still due or not, by the time of the event
	deliveriesByClinic  = 2 // from here on: the clinic whose log has them
	deliveriesByTime    = 3 // and by the time of the latest attempt
	deliveriesByOutcome = 4 // and whether it was delivered
	outcomesByTime      = 5 // and whether it was delivered, by the time of the latest attempt
	deliveriesByEventID = 6 // and the event
)

// Keys of deliveries.
const (
	stillDue    = "due"
	notDue      = "not due"
	unattempted = "-" // shown to no clinic yet
)

func sortDeliveries(rows *table.Table[delivery]) {
	due := func(d *delivery) string {
		if d.NextAttemptAt.IsZero() {
			return notDue
		}
		return stillDue
	}
	shown := func(d *delivery) string {
		if len(d.Attempts) == 0 {
			return unattempted
		}
		return d.clinicID
	}
	attempted := func(d *delivery) time.Time {
		if len(d.Attempts) == 0 {
			return time.Time{}
		}
		return d.latest().At
	}
	event := func(d *delivery) string { return d.EventID }
	outcome := func(d *delivery) string { return strconv.FormatBool(d.Delivered) }
	rows.IndexBy(
		table.By(event), table.ByTime(func(d *delivery) time.Time { return d.event.CreatedAt }, due), table.By(shown), table.ByTime(attempted, shown),
		table.By(shown, outcome), table.ByTime(attempted, shown, outcome), table.By(shown, event),
	)
}

// forget drops deliveries that are not kept any more: with their event after 30 days,
// and the oldest beyond the limit. What is still due is kept beyond that. Why events
// were not sent is forgotten with the events. The caller holds mu.
func (s *sender) forget(now time.Time, events []string) {
	for _, id := range events {
		s.skips.Remove(id)
	}
	for _, due := range []string{stillDue, notDue} {
		for {
			span := s.deliveries.Span(deliveriesByAge, due)
			if span.Len() == 0 {
				break
			}
			oldest := span.Ascending().Part(0, 1)[0]
			if now.Sub(oldest.event.CreatedAt) <= retention && (due == stillDue || span.Len() <= s.srv.set.eventLimit) {
				break
			}
			s.deliveries.Remove(oldest.ID)
		}
	}
}

// deliveryQuery is what a clinic's list of deliveries is asked for.
type deliveryQuery struct {
	clinic, event, delivered string
	days                     days
	field                    string
	descending               bool
}

// list reads the list off the orders of the table.
func (q deliveryQuery) list(rows *table.Table[delivery]) table.List[delivery] {
	within := func(d *delivery) int { return q.days.place(d.latest().At) }
	every, held := rows.Span(deliveriesByClinic, q.clinic), rows.SpanWithin(deliveriesByTime, within, q.clinic)
	if q.delivered != "" {
		every, held = rows.Span(deliveriesByOutcome, q.clinic, q.delivered), rows.SpanWithin(outcomesByTime, within, q.clinic, q.delivered)
	}
	switch {
	case q.event != "":
		few := table.Keep(rows.Span(deliveriesByEventID, q.clinic, q.event).Created().All(), q.keeps)
		slices.SortStableFunc(few, q.compare)
		return table.Rows(few)
	case q.field == "event_id":
		return rows.Span(deliveriesByEventID, q.clinic).Sorted(q.descending).Keep(held.Len(), q.keeps)
	case q.field != "" || q.descending:
		return held.Sorted(q.descending)
	case held.Len() == every.Len():
		return every.Created()
	default:
		return held.Created()
	}
}

func (q deliveryQuery) keeps(d *delivery) bool {
	return q.days.holds(d.latest().At) && (q.event == "" || q.event == d.EventID) &&
		(q.delivered == "" || q.delivered == strconv.FormatBool(d.Delivered))
}

// compare sorts as the list is asked to be sorted.
func (q deliveryQuery) compare(a, b *delivery) int {
	if q.descending {
		a, b = b, a
	}
	switch {
	case q.field == "event_id":
		return strings.Compare(a.EventID, b.EventID)
	case q.field != "" || q.descending:
		return a.latest().At.Compare(b.latest().At)
	}
	return 0
}

// attempts lists one row for each attempt. It walks all deliveries.
func (q deliveryQuery) attempts(rows *table.Table[delivery]) table.List[delivery] {
	var log []*delivery
	for d := range rows.All() {
		if d.clinicID == q.clinic {
			log = append(log, table.Keep(d.byAttempt(), q.keeps)...)
		}
	}
	slices.SortStableFunc(log, q.compare)
	return table.Rows(log)
}
