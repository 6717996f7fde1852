package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
)

const (
	// maxFailures is how many events in a row may not be read, or not be taken by
	// the inbox, before the run ends.
	maxFailures = 3

	// saveEvery is after how many events the checkpoint is saved. What comes
	// after it is not read again either, as the inbox knows it.
	saveEvery = 100
)

// recover reads what was missed and accepts it. An event that cannot be read, or
// that the inbox refuses, keeps no other from it, but the checkpoint stays before
// it. It returns an error only where the run ends by it.
func (n *run) recover(ctx context.Context) error {
	missed := n.inOrder()
	for _, m := range missed {
		n.report.Missed += len(m.keys)
	}
	failures := 0
	for i, m := range missed {
		if err := n.recoverOne(ctx, m); err != nil {
			m.leave(err)
			if !n.refused(m, err) {
				failures++
			}
			if failures == maxFailures || ends(ctx, err) {
				return err
			}
			continue
		}
		failures = 0
		n.report.Gaps, n.doubtful = append(n.report.Gaps, n.doubtful...), nil
		if m.walk.listed && m.walk.stuck.IsZero() {
			n.state.pass(m.walk.group, m.event.CreatedAt.Time, n.now)
		}
		if (i+1)%saveEvery == 0 {
			if err := n.save(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// recoverOne recovers an event, unless it is too late for that.
func (n *run) recoverOne(ctx context.Context, m *missed) error {
	event, err := n.read(ctx, m)
	switch {
	case err == nil:
		return n.accept(ctx, m, event)
	case n.tooLate(m, err):
		return nil
	}
	return err
}

// refused reports an event that the inbox does not take as a gap, and whether it
// is certain that the event is the reason. Where it is not, the inbox may be the
// reason: then the gap counts once the inbox has taken a later event.
func (n *run) refused(m *missed, err error) (certain bool) {
	if !errors.Is(err, ErrInbox) {
		return false
	}
	at := m.event.CreatedAt.Time
	gap := Gap{Group: m.walk.group, From: at, To: at, EventID: m.event.ID, Type: m.event.Type, Err: err}
	for _, known := range []error{ErrUnstorable, ErrBodyTooLarge, ErrPanic} {
		if errors.Is(err, known) {
			n.report.Gaps = append(n.report.Gaps, gap)
			return true
		}
	}
	n.doubtful = append(n.doubtful, gap)
	return false
}

// inOrder returns what was missed in the order in which it happened. Of what
// happened at once, what leads to other things comes first.
func (n *run) inOrder() []*missed {
	return slices.SortedFunc(maps.Values(n.found), func(a, b *missed) int {
		return cmp.Or(
			a.event.CreatedAt.Compare(b.event.CreatedAt.Time),
			cmp.Compare(a.walk.rank, b.walk.rank),
			-cmp.Compare(created(a.event), created(b.event)),
			-cmp.Compare(a.seat, b.seat), // the newest was listed first
		)
	})
}

func created(e events.Event) int {
	if isCreated(e.Type) {
		return 1
	}
	return 0
}

// read returns the event with its data, which lists leave out.
func (n *run) read(ctx context.Context, m *missed) (events.Event, error) {
	e := m.event
	if len(e.Data) > 0 {
		return e, nil
	}
	got, err := n.config.Events.Get(ctx, e.ID)
	n.report.Reads++
	if err != nil {
		return e, err
	}
	e.Data = got.Data
	return e, nil
}

// tooLate notes an event that the platform no longer has, and reports whether its
// time was up.
func (n *run) tooLate(m *missed, err error) bool {
	if !errors.Is(err, api.ErrNotFound) {
		return false
	}
	at := m.event.CreatedAt.Time
	n.report.Gaps = append(n.report.Gaps, Gap{Group: m.walk.group, From: at, To: at, EventID: m.event.ID, Type: m.event.Type})
	return at.Before(n.config.Now().Add(-retained))
}

// leave keeps the checkpoint before an event that could not be read or was refused.
// One that is gone before its time is no error, and not listed again; but an answer
// that was not the platform's must not end in losing everything there is.
func (m *missed) leave(err error) {
	w, at := m.walk, m.event.CreatedAt.Time
	if w.report.Err == nil && !errors.Is(err, api.ErrNotFound) {
		w.report.Err = err
	}
	switch {
	case at.IsZero():
		w.listed = false // nobody knows where it stands: the group is not settled
	case w.stuck.IsZero() || at.Before(w.stuck):
		w.stuck = at
	}
}

// accept puts the event into the inbox for each integration that missed it. Its
// body is what a webhook would have brought. What is refused for one integration
// is accepted for the others.
func (n *run) accept(ctx context.Context, m *missed, e events.Event) error {
	var refused []error
	fresh := false
	for _, key := range m.keys {
		receipt, err := n.acceptAs(ctx, key, e)
		switch {
		case err != nil:
			refused = append(refused, fmt.Errorf("%w: %w", ErrInbox, err))
		case !receipt.Duplicate:
			fresh = true
			n.report.Recovered = append(n.report.Recovered, key)
			if receipt.Unchecked {
				n.report.Unchecked++
			}
		}
	}
	if fresh {
		m.walk.report.Recovered++
	}
	return errors.Join(refused...)
}

func (n *run) acceptAs(ctx context.Context, key Key, e events.Event) (Receipt, error) {
	e.IntegrationID = key.IntegrationID
	body, err := json.Marshal(struct {
		Event events.Event `json:"event"`
	}{e})
	switch {
	case err != nil:
		return Receipt{}, fmt.Errorf("event %s: %w", e.ID, err)
	case int64(len(body)) > n.config.MaxBody:
		return Receipt{}, ErrBodyTooLarge
	}
	return n.config.Inbox.Accept(ctx, Delivery{
		Key:        key,
		Type:       e.Type,
		ClinicID:   e.ClinicID,
		CreatedAt:  e.CreatedAt.Time,
		ReceivedAt: n.config.Now(),
		Body:       body,
	})
}
