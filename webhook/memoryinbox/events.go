package memoryinbox

import (
	"context"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// entry is a stored event.
type entry struct {
	delivery    webhook.Delivery
	orderingKey webhook.OrderingKey
	object      webhook.OrderingKey
	seq         int64 // the number of the event since New
	attempts    int
	due         time.Time // the time of death for a dead letter
	queue       *queue    // nil for a dead letter
	running     bool
	reason      string // of the last failed attempt
	failures    []engine.Failure
	err         error // of the last attempt of a dead letter
}

// failed records a failed attempt.
func (e *entry) failed(a webhook.Attempt) {
	e.attempts, e.reason, e.failures = a.Number, a.Reason(), inboxkit.AppendFailure(e.failures, a, time.Now())
}

// queue contains the events of one ordering key, oldest first. Workers handle one event of a queue
// at a time. Each event without an ordering key gets its own queue.
type queue struct {
	entries []*entry
	taken   bool        // in Inbox.ready or in a worker
	timer   *time.Timer // runs until the first event is due
}

// insert adds an entry in order of OrderTime. Events with the same time keep their order of
// arrival.
func (q *queue) insert(e *entry) {
	at, _ := slices.BinarySearchFunc(q.entries, e, func(other, e *entry) int {
		if other.delivery.OrderTime().After(e.delivery.OrderTime()) {
			return 1
		}
		return -1
	})
	q.entries = slices.Insert(q.entries, at, e)
}

func (q *queue) remove(e *entry) {
	q.entries = slices.DeleteFunc(q.entries, func(other *entry) bool { return other == e })
}

func (q *queue) stopTimer() {
	if q.timer != nil {
		q.timer.Stop()
	}
}

// recent is a map with a limit. A new key beyond the limit replaces the oldest key.
type recent[K comparable, V any] struct {
	limit  int
	values map[K]V
	order  []K // a ring once its length is limit
	next   int
}

func newRecent[K comparable, V any](limit int) recent[K, V] {
	return recent[K, V]{limit: limit, values: map[K]V{}}
}

func (r *recent[K, V]) has(key K) bool {
	_, ok := r.values[key]
	return ok
}

func (r *recent[K, V]) put(key K, value V) {
	switch {
	case r.has(key):
	case len(r.order) < r.limit:
		r.order = append(r.order, key)
	default:
		delete(r.values, r.order[r.next])
		r.order[r.next] = key
		r.next = (r.next + 1) % r.limit
	}
	r.values[key] = value
}

// timeOfDeath returns the time of a new dead letter. It is later than every earlier result, even
// if the clock stands still, so an event that dies after a count is beyond Counts.Until. The
// caller locks i.mu.
func (i *Inbox) timeOfDeath() time.Time {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if !now.After(i.lastDeath) {
		now = i.lastDeath.Add(time.Microsecond)
	}
	i.lastDeath = now
	return now
}

// event returns the entry for a list, without its body.
func (e *entry) event() engine.Event {
	listed := engine.Event{
		Delivery: e.delivery, State: engine.StateWaiting, OrderingKey: e.orderingKey,
		Attempts: e.attempts, Reason: e.reason, Failures: slices.Clone(e.failures),
		Position: engine.Position{At: e.due.UTC().Truncate(time.Microsecond), Seq: e.seq},
	}
	listed.Body = nil
	switch {
	case e.queue == nil:
		listed.State = engine.StateDead
	case e.running:
		listed.State = engine.StateRunning
		listed.Attempts++
	}
	return listed
}

// matching returns the events of a page that match f, in order. It ignores the limit of the page.
// The caller locks i.mu.
func (i *Inbox) matching(f engine.Filter, page engine.Page) (all []engine.Event) {
	entries := i.entries
	if f.Keys != nil {
		entries = map[webhook.Key]*entry{}
		for _, key := range f.Keys {
			if e := i.entries[key]; e != nil {
				entries[key] = e
			}
		}
	}
	for _, e := range entries {
		if listed := e.event(); page.Contains(listed.Position) && f.Matches(listed) {
			all = append(all, listed)
		}
	}
	slices.SortFunc(all, func(a, b engine.Event) int { return page.Compare(a.Position, b.Position) })
	return all
}

// unavailable returns an error if ctx has ended or the inbox is closed. The caller locks i.mu.
func (i *Inbox) unavailable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if i.closed {
		return webhook.ErrInboxClosed
	}
	return nil
}

// List implements [engine.Engine]. It also works on a closed inbox.
func (i *Inbox) List(ctx context.Context, f engine.Filter, page engine.Page) ([]engine.Event, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.matching(f, page)
	return all[:min(page.Limit, len(all))], ctx.Err()
}

// Count implements [engine.Engine]. It also works on a closed inbox.
func (i *Inbox) Count(ctx context.Context, f engine.Filter, most int) (c engine.Counts, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.matching(f, engine.Page{})
	if most > 0 {
		all = all[:min(most, len(all))]
	}
	for _, e := range all {
		at := e.Position.At
		inboxkit.Group{Type: e.Type, ClinicID: e.ClinicID, Reason: e.Reason, Events: 1, Oldest: e.ReceivedAt, First: at, Last: at}.AddTo(&c)
		c.Until = e.Position
	}
	return c, ctx.Err()
}

// Open implements [engine.Engine]. It also works on a closed inbox.
func (i *Inbox) Open(ctx context.Context, key webhook.Key) (engine.Event, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	e := i.entries[key]
	switch {
	case ctx.Err() != nil:
		return engine.Event{}, ctx.Err()
	case e == nil:
		return engine.Event{}, engine.ErrNotStored
	}
	opened := e.event()
	opened.Body, opened.Err = slices.Clone(e.delivery.Body), e.err
	return opened, nil
}

// Finished implements [engine.Engine]. It knows the last Config.MaxKeys keys. It also works on a
// closed inbox.
func (i *Inbox) Finished(ctx context.Context, eventID string) (all []engine.Finished, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for key, finished := range i.finished.values {
		if key.EventID == eventID {
			all = append(all, finished)
		}
	}
	return all, ctx.Err()
}

// Replay implements [engine.Engine].
func (i *Inbox) Replay(ctx context.Context, f engine.Filter) (int, error) {
	return i.change(ctx, f, engine.StateDead, i.unavailable, func(e *entry) {
		e.attempts, e.reason, e.err = 0, "", nil
		i.enqueue(e)
	})
}

// Discard implements [engine.Engine]. It also works on a closed inbox.
func (i *Inbox) Discard(ctx context.Context, f engine.Filter) (int, error) {
	return i.change(ctx, f, engine.StateDead, context.Context.Err, func(e *entry) { i.drop(e, true) })
}

// HandleNow implements [engine.Engine].
func (i *Inbox) HandleNow(ctx context.Context, f engine.Filter) (int, error) {
	return i.change(ctx, f, engine.StateWaiting, i.unavailable, func(e *entry) {
		e.due = time.Now()
		i.schedule(e.queue)
	})
}

// change calls change for each matching event in the state: dead letters, or waiting events that
// are not yet due. It returns the number of changed events.
func (i *Inbox) change(
	ctx context.Context, f engine.Filter, state engine.State, unavailable func(context.Context) error, change func(*entry),
) (int, error) {
	return inboxkit.InBatches(ctx, i, f, state, inboxkit.After(state, time.Now()), func(ctx context.Context, part engine.Filter) (int, error) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if err := unavailable(ctx); err != nil {
			return 0, err
		}
		all := i.matching(part, engine.Page{After: inboxkit.After(state, time.Now())})
		for _, e := range all {
			change(i.entries[e.Key])
		}
		return len(all), nil
	})
}

// Stats implements [engine.Engine].
func (i *Inbox) Stats(ctx context.Context) (engine.Stats, error) {
	var s engine.Stats
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.unavailable(ctx); err != nil {
		return s, err
	}
	s.Overdue = i.worker.Overdue()
	for _, e := range i.entries {
		switch {
		case e.queue == nil:
			s.Dead++
			continue
		case e.running:
			s.Running++
		default:
			s.Waiting++
		}
		if at := e.delivery.ReceivedAt; s.Oldest.IsZero() || at.Before(s.Oldest) {
			s.Oldest = at
		}
	}
	return s, nil
}
