package reconcile

import (
	"bytes"
	"context"
	"fmt"
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

// maxLogData is the maximum size of the event data that a run keeps from the delivery log, in
// bytes. Without the data, a run reads the event from the platform.
const maxLogData = 32 << 20

// listDeliveries reads the log of failed deliveries. The log has the events as they were sent,
// with their data. If the log fails, the run continues without it. listDeliveries returns an
// error only if the run ends.
func (r *run) listDeliveries(ctx context.Context) error {
	options := events.DeliveryListOptions{Outcome: events.DeliveryOutcomeUndelivered, SortBy: events.DeliverySortAttempt, SortOrder: api.SortOrderDescending}
	known := map[webhook.Key]bool{}
	for page, err := range r.clinic.Events.Deliveries.List(options).Pages(ctx) {
		if err != nil {
			r.report.DeliveryLogErr = err
			if endsRun(ctx, err) {
				return err
			}
			return nil
		}
		r.report.Pages++
		if err := r.addDeliveries(ctx, page.Items, known); err != nil {
			return err
		}
		if r.deliveries.done() {
			break
		}
	}
	r.deliveries.complete = true
	return nil
}

// addDeliveries reports a page of the log, and records the events that the inbox has not seen.
// The log lists the latest attempt of an event first.
func (r *run) addDeliveries(ctx context.Context, page []events.Delivery, known map[webhook.Key]bool) error {
	var sent []events.Event
	first, l := len(r.report.FailedDeliveries), r.deliveries
	seen := make(map[string]bool, len(page))
	for _, d := range page {
		seen[d.ID] = true
		if l.seen[d.ID] || l.isDone(d.AttemptedAt.Time, r.now) || d.SuccessfullyDelivered {
			continue
		}
		e, err := d.Event()
		if err != nil {
			r.report.DeliveryLogErr = fmt.Errorf("delivery %s: %w", d.ID, err)
			continue
		}
		key := r.key(e, e.IntegrationID)
		if known[key] || !r.belongsToUs(key) {
			continue
		}
		known[key] = true
		sent = append(sent, e)
		r.report.FailedDeliveries = append(r.report.FailedDeliveries, FailedDelivery{
			Key:           key,
			Type:          e.Type,
			Attempts:      d.AttemptNumber,
			AttemptedAt:   d.AttemptedAt.Time,
			NextAttemptAt: d.NextAttemptAt.Time,
			Status:        d.ResponseStatus,
			Reason:        d.ResponseErrors,
		})
	}
	l.seen = seen
	missing, err := r.missing(ctx, sent)
	if err != nil {
		return err
	}
	for i, e := range sent {
		failed := &r.report.FailedDeliveries[first+i]
		if missing[failed.Key] && missing[r.key(e, "")] && !e.CreatedAt.Before(r.checkpoint.Since) {
			failed.Missed = true
			r.addFromLog(e, failed.Key)
		}
	}
	return nil
}

// belongsToUs reports whether a key is of one of the integrations. The log may list the
// product events of all integrations.
func (r *run) belongsToUs(key webhook.Key) bool {
	return key.IntegrationID == "" || slices.Contains(r.integrations, key.IntegrationID)
}

// addFromLog records a missed event of the delivery log.
func (r *run) addFromLog(e events.Event, key webhook.Key) {
	m := r.missed[e.ID]
	if m == nil {
		data := e.Data
		e.Data = nil
		if r.logData+len(data) <= maxLogData {
			r.logData += len(data)
			e.Data = bytes.Clone(data) // a copy does not keep the page in memory
		}
		m = &missedEvent{event: e, list: r.deliveries, found: len(r.missed)}
		r.missed[e.ID] = m
	}
	if m.withoutIntegration = m.withoutIntegration || key.IntegrationID == ""; m.withoutIntegration {
		m.keys = nil
	}
	m.keys = append(m.keys, key)
}
