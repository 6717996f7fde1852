package reconcile

import (
	"context"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// isDone notes the time of the next entry, zero if it has none, and reports whether an earlier
// run has read it.
func (l *listRun) isDone(at, now time.Time) bool {
	if at.IsZero() {
		return false
	}
	l.unsorted = l.unsorted || !l.last.IsZero() && at.After(l.last)
	l.last, l.newest = at, newest(l.newest, at, now)
	return at.Before(l.from)
}

// done reports whether an earlier run has read the rest. An unsorted list is read to its end.
func (l *listRun) done() bool { return !l.unsorted && !l.last.IsZero() && l.last.Before(l.from) }

// listGroup lists a group and records events that the inbox has not seen. It returns an error only
// if the run ends.
func (r *run) listGroup(ctx context.Context, l *listRun) error {
	options := events.ListOptions{SortBy: events.SortCreatedAt, SortOrder: api.SortOrderDescending}
	for page, err := range r.clinic.group(l.group).Pages(ctx, options) {
		if err != nil {
			l.err, l.report.Err = err, err
			if endsRun(ctx, err) || r.report.Pages == 0 && r.report.DeliveryLogErr != nil {
				return err // a platform that answers neither log nor list is not asked for the others
			}
			return nil
		}
		r.report.Pages++
		listed := l.filterNew(page.Items, r.now)
		l.report.Listed += len(listed)
		if err := r.checkBatch(ctx, listed, l); err != nil {
			return err
		}
		if l.done() {
			break
		}
	}
	l.complete = true
	return nil
}

func (c *Clinic) group(g Group) events.Group {
	switch g {
	case GroupClinicKeys:
		return c.Events.ClinicKeys
	case GroupProducts:
		return c.Events.Products
	case GroupPatients:
		return c.Events.Patients
	case GroupTreatmentPlans:
		return c.Events.TreatmentPlans
	}
	return c.Events.Orders
}

// filterNew returns the new events of a page. New events at the platform move others from the end
// of a page to the beginning of the next.
func (l *listRun) filterNew(page []events.Event, now time.Time) (fresh []events.Event) {
	seen := make(map[string]bool, len(page))
	for _, e := range page {
		seen[e.ID] = true
		if e.ID == "" || l.seen[e.ID] {
			continue
		}
		if !l.isDone(e.CreatedAt.Time, now) {
			fresh = append(fresh, e)
		}
	}
	l.seen = seen
	return fresh
}

// checkBatch records the events and integrations that the inbox has not seen. An event that came
// without an integration came for all.
func (r *run) checkBatch(ctx context.Context, listed []events.Event, l *listRun) error {
	missing, err := r.missing(ctx, listed)
	if err != nil {
		return err
	}
	for _, e := range listed {
		if !missing[r.key(e, "")] {
			r.arrivals.saw(e, l.before, r.now)
			continue
		}
		var unseen []webhook.Key
		for _, id := range r.integrations {
			if key := r.key(e, id); missing[key] {
				unseen = append(unseen, key)
			}
		}
		if len(unseen) > 0 {
			r.addFromList(e, unseen, l)
		} else {
			r.arrivals.saw(e, l.before, r.now)
		}
	}
	return nil
}

// addFromList records a missed event.
func (r *run) addFromList(e events.Event, unseen []webhook.Key, l *listRun) {
	l.report.Missed++
	m := r.missed[e.ID]
	if m == nil {
		m = &missedEvent{found: len(r.missed)}
		r.missed[e.ID] = m
	}
	// The list knows the event best, the delivery log how it was sent.
	e.Data = m.event.Data
	m.event, m.list = e, l
	for _, key := range unseen {
		if !m.withoutIntegration && !slices.Contains(m.keys, key) {
			m.keys = append(m.keys, key)
		}
	}
}
