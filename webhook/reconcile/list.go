package reconcile

import (
	"context"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// isDone records the time of the next entry, zero if it has none, and reports whether an
// earlier run has read it.
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
	list := r.clinic.Events.List(events.ListOptions{Since: l.from, Groups: []events.Group{l.group}, SortOrder: api.SortOrderDescending})
	for page, err := range list.Pages(ctx) {
		if err != nil {
			l.err, l.report.Err = err, err
			if endsRun(ctx, err) || r.report.Pages == 0 && r.report.DeliveryLogErr != nil {
				return err // without log and list, the other lists would fail too
			}
			return nil
		}
		r.report.Pages++
		if err := r.checkClinic(ctx, page.Items); err != nil {
			return err
		}
		listed := l.filterUsable(page.Items, r.now)
		l.report.Listed += len(listed)
		if err := r.checkBatch(ctx, listed, l); err != nil {
			return err
		}
	}
	l.complete = true
	return nil
}

// checkClinic returns an error if events are of another clinic. Then the user has moved on the
// platform, and the next run asks for the clinic of the user again.
func (r *run) checkClinic(ctx context.Context, page []events.Event) error {
	i := slices.IndexFunc(page, func(e events.Event) bool { return e.ClinicID != "" && e.ClinicID != r.clinicID })
	if i < 0 {
		return nil
	}
	r.checkpoint.Asked = time.Time{}
	if err := r.save(ctx); err != nil {
		return err
	}
	return &api.AccountChangedError{Before: api.Account{ClinicID: r.clinicID}, Now: api.Account{ClinicID: page[i].ClinicID}}
}

// filterUsable returns the new events of a page with an id, and records their times.
func (l *listRun) filterUsable(page []events.Event, now time.Time) (usable []events.Event) {
	for _, e := range page {
		if e.ID != "" && !l.isDone(e.CreatedAt.Time, now) {
			usable = append(usable, e)
		}
	}
	return usable
}

// checkBatch records the missing integrations of each event. An event that was accepted
// without an integration counts for all.
func (r *run) checkBatch(ctx context.Context, listed []events.Event, l *listRun) error {
	missing, err := r.missing(ctx, listed)
	if err != nil {
		return err
	}
	for _, e := range listed {
		var unseen []webhook.Key
		for _, id := range r.integrations {
			if key := r.key(e, id); missing[key] && missing[r.key(e, "")] {
				unseen = append(unseen, key)
			}
		}
		if len(unseen) > 0 {
			r.addFromList(e, unseen, l)
		} else {
			r.arrivals.addWebhook(e, l.before, r.now)
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
	// Use the event of the list, and the data of the delivery log.
	e.Data = m.event.Data
	m.event, m.list = e, l
	for _, key := range unseen {
		if !m.withoutIntegration && !slices.Contains(m.keys, key) {
			m.keys = append(m.keys, key)
		}
	}
}
