package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
)

// newRetry returns the retry of an event that fails for the first time.
func newRetry(m *missedEvent, now time.Time) *retry {
	e := &retry{
		ID: m.event.ID, Type: m.event.Type, ClinicID: m.event.ClinicID, Group: m.list.group,
		At: m.event.CreatedAt.Time, Since: now, Failures: 1,
	}
	for _, key := range m.keys {
		e.Integrations = append(e.Integrations, key.IntegrationID)
	}
	return e
}

// addRetries adds the retries to the missed events, except retries that have arrived as
// webhooks.
func (r *run) addRetries(ctx context.Context) error {
	var listed []events.Event
	for _, e := range r.checkpoint.Retries {
		listed = append(listed, e.event())
	}
	missing, err := r.missing(ctx, listed)
	if err != nil {
		return err
	}
	for i, e := range slices.Clone(r.checkpoint.Retries) {
		if r.missed[e.ID] != nil {
			continue // listed again
		}
		m := &missedEvent{event: listed[i], list: r.listOf(e.Group), found: len(r.missed)}
		for _, id := range e.Integrations {
			if key := r.key(m.event, id); missing[key] && missing[r.key(m.event, "")] {
				m.keys = append(m.keys, key)
			}
		}
		if len(m.keys) == 0 {
			r.checkpoint.removeRetry(e.ID)
			continue
		}
		r.missed[e.ID] = m
	}
	return nil
}

func (e *retry) event() events.Event {
	return events.Event{ID: e.ID, Type: e.Type, ClinicID: e.ClinicID, CreatedAt: api.Timestamp{Time: e.At}}
}

// listOf returns the list of a group. It returns the delivery log for an event without a
// listed group.
func (r *run) listOf(group events.Group) *listRun {
	for _, l := range r.lists {
		if l.group == group {
			return l
		}
	}
	return r.deliveries
}

// fail records that an event was not recovered, and returns it as a gap. gone reports whether
// the platform no longer has the event.
func (r *run) fail(m *missedEvent, err error) (gap Gap, gone bool) {
	gap = m.gap()
	e := r.checkpoint.retry(m.event.ID)
	known := e != nil
	if !known {
		e = newRetry(m, r.now)
	}
	if e.isGone(r.config.Now(), err) {
		r.checkpoint.removeRetry(e.ID)
		return gap, true
	}
	gap.Err = err
	switch {
	case known:
		e.Failures++
		return gap, false
	case !r.checkpoint.addRetry(*e):
		m.list.complete = false // keeps the checkpoint before the event
	case errors.Is(err, api.ErrNotFound):
		return gap, false
	}
	if m.list.report.Err == nil {
		m.list.report.Err = err
		r.failed = append(r.failed, fmt.Errorf("%s: %w", cmp.Or(string(m.list.group), "delivery log"), err))
	}
	return gap, false
}

// isGone reports whether the platform no longer has an event, because it keeps events for 30
// days. A 404 before that time is no proof. A day later, any other error is.
func (e *retry) isGone(now time.Time, err error) bool {
	age := now.Sub(e.began())
	return age > retention && (errors.Is(err, api.ErrNotFound) || age > retention+24*time.Hour)
}
