package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

const (
	// maxFailures is the number of failures that end a run without a success, and the number
	// of consecutive failed accepts after which the inbox counts as down.
	maxFailures = 3

	// saveEvery is the number of events between two saves of the checkpoint. After a crash,
	// later events are not read again either, because the inbox has them.
	saveEvery = 100

	// retriesLast is the number of failures after which an event is tried last.
	retriesLast = 2
)

// recoverMissed reads the missed events and accepts them. If an event cannot be read, or the
// inbox rejects it, later runs retry it and it blocks no other event. recoverMissed returns an
// error only if the run ends.
func (r *run) recoverMissed(ctx context.Context) error {
	missed := r.oldestFirst()
	for _, m := range missed {
		r.report.Missed += len(m.keys)
	}
	failures, succeeded := 0, false
	var rejected []Gap // since the last success, because the inbox may be down
	for i, m := range missed {
		known := r.checkpoint.failures(m) > 0
		err := r.recoverOne(ctx, m)
		switch {
		case err == nil:
			succeeded = true
			r.report.Gaps, rejected = append(r.report.Gaps, rejected...), nil
			r.recovered(m)
		case endsRun(ctx, err):
			return err
		default:
			gap, gone := r.fail(m, err)
			certain := gone || isRejected(err)
			if !certain {
				failures++
			}
			if !certain && errors.Is(err, webhook.ErrInbox) {
				rejected = append(rejected, gap)
			} else {
				r.report.Gaps = append(r.report.Gaps, gap)
			}
			switch hopeless := failures >= maxFailures && !succeeded; {
			case hopeless && known:
				return nil // the next run tries the others first
			case hopeless, len(rejected) == maxFailures:
				return err
			}
		}
		if (i+1)%saveEvery == 0 {
			if err := r.save(ctx); err != nil {
				return err
			}
		}
	}
	r.report.Gaps = append(r.report.Gaps, rejected...)
	return nil
}

// isRejected reports whether the inbox rejected an event because of the event itself.
func isRejected(err error) bool {
	return errors.Is(err, webhook.ErrUnstorable) || errors.Is(err, safecall.ErrPanic)
}

// recoverOne reads and accepts an event.
func (r *run) recoverOne(ctx context.Context, m *missedEvent) error {
	event, err := r.read(ctx, m)
	if err != nil {
		return err
	}
	return r.accept(ctx, m, event)
}

// recovered moves the checkpoint past a recovered event.
func (r *run) recovered(m *missedEvent) {
	r.checkpoint.removeRetry(m.event.ID)
	if m.list != r.deliveries && m.list.complete {
		r.checkpoint.advance(m.list.group, m.event.CreatedAt.Time, r.now)
	}
}

// oldestFirst returns the missed events in the order in which they happened. At the same time,
// an event that leads to others comes first. Events that failed repeatedly come last, those
// with the fewest failures first.
func (r *run) oldestFirst() []*missedEvent {
	return slices.SortedFunc(maps.Values(r.missed), func(a, b *missedEvent) int {
		return cmp.Or(
			cmp.Compare(r.checkpoint.failures(a), r.checkpoint.failures(b)),
			a.event.CreatedAt.Compare(b.event.CreatedAt.Time),
			cmp.Compare(a.list.rank, b.list.rank),
			-cmp.Compare(created(a.event), created(b.event)),
			-cmp.Compare(a.found, b.found), // lists are newest first
		)
	})
}

// failures returns the failures of an event that is tried last, and 0 for other events.
func (c *checkpoint) failures(m *missedEvent) int {
	if e := c.retry(m.event.ID); e != nil && e.Failures >= retriesLast {
		return e.Failures
	}
	return 0
}

// created returns 1 for the first event of an object, and 0 for others.
func created(e events.Event) int {
	if strings.HasSuffix(string(e.Type), ".created") {
		return 1
	}
	return 0
}

// read returns the event with its data. Lists have no data.
func (r *run) read(ctx context.Context, m *missedEvent) (events.Event, error) {
	e := m.event
	if len(e.Data) > 0 {
		return e, nil
	}
	if apikit.PriorityOf(ctx) == api.PriorityReconcile { // a known missed event is more urgent than the search for others
		ctx = api.ContextWithPriority(ctx, api.PriorityEvent)
	}
	got, err := r.clinic.Events.Get(ctx, e.ID)
	r.report.Reads++
	if err != nil {
		return e, err
	}
	e.Data = got.Data
	return e, nil
}

// accept accepts the event for each integration that missed it. A rejection for one
// integration does not affect the others.
func (r *run) accept(ctx context.Context, m *missedEvent, e events.Event) error {
	var rejections []error
	fresh := false
	for _, key := range m.keys {
		receipt, err := r.acceptAs(ctx, key, e)
		switch {
		case err != nil:
			rejections = append(rejections, fmt.Errorf("%w: %w", webhook.ErrInbox, err))
		case !receipt.Duplicate:
			fresh = true
			r.report.Recovered = append(r.report.Recovered, key)
			if receipt.Unchecked {
				r.report.Unchecked++
			}
		}
	}
	if fresh {
		m.list.report.Recovered++
		r.countRecovered(m)
	}
	return errors.Join(rejections...)
}

// countRecovered counts an event that arrived without a webhook. A retry is no evidence,
// because its webhook failed before the last run.
func (r *run) countRecovered(m *missedEvent) {
	if r.checkpoint.retry(m.event.ID) == nil {
		r.arrivals.events++
		r.arrivals.recovered = newest(r.arrivals.recovered, m.event.CreatedAt.Time, r.now)
	}
}

// acceptAs accepts the event for one integration, with the body of a webhook.
func (r *run) acceptAs(ctx context.Context, key webhook.Key, e events.Event) (webhook.Receipt, error) {
	e.IntegrationID = key.IntegrationID
	body, err := json.Marshal(struct {
		Event events.Event `json:"event"`
	}{e})
	if err != nil {
		return webhook.Receipt{}, fmt.Errorf("event %s: %w", e.ID, err)
	}
	return r.config.Inbox.Accept(ctx, webhook.Delivery{
		Key:        key,
		Type:       e.Type,
		ClinicID:   e.ClinicID,
		CreatedAt:  e.CreatedAt.Time,
		ReceivedAt: r.config.Now(),
		Body:       body,
	})
}

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
