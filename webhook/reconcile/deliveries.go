package reconcile

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

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
