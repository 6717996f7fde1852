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

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

const (
	// maxFailures is how many events in a row may not be read, or not be taken by
	// the inbox, before the run ends.
	maxFailures = 3

	// saveEvery is after how many events the checkpoint is saved. What comes
	// after it is not read again either, as the inbox knows it.
	saveEvery = 100
)

// missedEvent is an event that the inbox has not seen.
type missedEvent struct {
	event events.Event  // without Data if it has to be read
	keys  []webhook.Key // by which it was, or would have been, sent
	list  *listRun
	found int // in which order

	withoutIntegration bool // it was sent without one
}

func (r *run) key(e events.Event, integration string) webhook.Key {
	return webhook.Key{Environment: r.config.Environment, EventID: e.ID, IntegrationID: integration}
}

// maxKeys is how many keys an inbox is asked about at a time.
const maxKeys = 300

// missing asks the inbox about all keys that events can have.
func (r *run) missing(ctx context.Context, listed []events.Event) (map[webhook.Key]bool, error) {
	var keys []webhook.Key
	for _, e := range listed {
		keys = append(keys, r.key(e, ""))
		for _, id := range r.integrations {
			keys = append(keys, r.key(e, id))
		}
	}
	all := map[webhook.Key]bool{}
	for batch := range slices.Chunk(keys, maxKeys) {
		missing, err := r.config.Inbox.Missing(ctx, batch)
		if err != nil {
			return nil, err
		}
		for _, key := range missing {
			all[key] = true
		}
	}
	return all, nil
}

// recoverMissed reads what was missed and accepts it. An event that cannot be read,
// or that the inbox refuses, keeps no other from it, but the checkpoint stays before
// it. It returns an error only where the run ends by it.
func (r *run) recoverMissed(ctx context.Context) error {
	missed := r.oldestFirst()
	for _, m := range missed {
		r.report.Missed += len(m.keys)
	}
	failures := 0
	for i, m := range missed {
		if err := r.recoverOne(ctx, m); err != nil {
			m.block(err)
			if !r.addRefused(m, err) {
				failures++
			}
			if failures == maxFailures || endsRun(ctx, err) {
				return err
			}
			continue
		}
		failures = 0
		r.report.Gaps, r.suspected = append(r.report.Gaps, r.suspected...), nil
		if m.list.complete && m.list.blocked.IsZero() {
			r.checkpoint.advance(m.list.group, m.event.CreatedAt.Time, r.now)
		}
		if (i+1)%saveEvery == 0 {
			if err := r.save(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// recoverOne recovers an event, unless the platform has it no longer.
func (r *run) recoverOne(ctx context.Context, m *missedEvent) error {
	event, err := r.read(ctx, m)
	switch {
	case err == nil:
		return r.accept(ctx, m, event)
	case r.outsideRetention(m, err):
		return nil
	}
	return err
}

// addRefused reports an event that the inbox does not take as a gap, and returns
// whether it is certain that the event is the reason. Where it is not, the inbox may
// be the reason: then the gap counts once the inbox has taken a later event.
func (r *run) addRefused(m *missedEvent, err error) (certain bool) {
	if !errors.Is(err, webhook.ErrInbox) {
		return false
	}
	gap := m.gap()
	gap.Err = err
	for _, known := range []error{webhook.ErrUnstorable, webhook.ErrBodyTooLarge, webhook.ErrPanic} {
		if errors.Is(err, known) {
			r.report.Gaps = append(r.report.Gaps, gap)
			return true
		}
	}
	r.suspected = append(r.suspected, gap)
	return false
}

func (m *missedEvent) gap() Gap {
	at := m.event.CreatedAt.Time
	return Gap{Group: m.list.group, From: at, To: at, EventID: m.event.ID, Type: m.event.Type}
}

// oldestFirst returns what was missed in the order in which it happened. Of events
// of one time, the one that leads to others comes first.
func (r *run) oldestFirst() []*missedEvent {
	return slices.SortedFunc(maps.Values(r.missed), func(a, b *missedEvent) int {
		return cmp.Or(
			a.event.CreatedAt.Compare(b.event.CreatedAt.Time),
			cmp.Compare(a.list.rank, b.list.rank),
			-cmp.Compare(created(a.event), created(b.event)),
			-cmp.Compare(a.found, b.found), // the newest was listed first
		)
	})
}

// created returns 1 for an event that is the first of its object, else 0.
func created(e events.Event) int {
	if strings.HasSuffix(string(e.Type), ".created") {
		return 1
	}
	return 0
}

// read returns the event with its data, which lists leave out.
func (r *run) read(ctx context.Context, m *missedEvent) (events.Event, error) {
	e := m.event
	if len(e.Data) > 0 {
		return e, nil
	}
	if api.PriorityOf(ctx) == api.PriorityReconcile { // what is known to be missed is more urgent than to look for it
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

// outsideRetention reports an event that the platform no longer has as a gap, and
// returns whether the platform has kept it for as long as it keeps events.
func (r *run) outsideRetention(m *missedEvent, err error) bool {
	if !errors.Is(err, api.ErrNotFound) {
		return false
	}
	r.report.Gaps = append(r.report.Gaps, m.gap())
	return m.event.CreatedAt.Before(r.config.Now().Add(-retention))
}

// block keeps the checkpoint before an event that could not be read or was refused.
// One that is gone before its time is no error, and not listed again; but an answer
// that was not the platform's must not end in losing everything there is.
func (m *missedEvent) block(err error) {
	l, at := m.list, m.event.CreatedAt.Time
	if l.report.Err == nil && !errors.Is(err, api.ErrNotFound) {
		l.report.Err = err
	}
	switch {
	case at.IsZero():
		l.complete = false // its place is not known: the group is not done
	case l.blocked.IsZero() || at.Before(l.blocked):
		l.blocked = at
	}
}

// accept puts the event into the inbox for each integration that missed it. What is
// refused for one integration is accepted for the others.
func (r *run) accept(ctx context.Context, m *missedEvent, e events.Event) error {
	var refused []error
	fresh := false
	for _, key := range m.keys {
		receipt, err := r.acceptAs(ctx, key, e)
		switch {
		case err != nil:
			refused = append(refused, fmt.Errorf("%w: %w", webhook.ErrInbox, err))
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
	}
	return errors.Join(refused...)
}

// acceptAs accepts the event for one integration. Its body is what a webhook would
// have brought.
func (r *run) acceptAs(ctx context.Context, key webhook.Key, e events.Event) (webhook.Receipt, error) {
	e.IntegrationID = key.IntegrationID
	body, err := json.Marshal(struct {
		Event events.Event `json:"event"`
	}{e})
	switch {
	case err != nil:
		return webhook.Receipt{}, fmt.Errorf("event %s: %w", e.ID, err)
	case int64(len(body)) > r.config.MaxBody:
		return webhook.Receipt{}, webhook.ErrBodyTooLarge
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
