package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// run is one run of a [Reconciler]. It lists what was missed, and reads and accepts
// it only then: lists come with the newest first, as they can be broken off then
// where the last run began, and events are accepted with the oldest first.
type run struct {
	config       Config
	open         func(context.Context) (Clinic, error)
	wholeEvery   time.Duration // 0 makes every run a whole one
	outages      int
	now          time.Time
	lease        *lease
	checkpoint   checkpoint
	integrations []string
	lists        []*listRun              // of the groups
	deliveries   *listRun                // of the delivery log
	missed       map[string]*missedEvent // by event id
	logData      int                     // bytes of data in missed that come from the delivery log
	suspected    []Gap                   // events that were refused, perhaps because the inbox failed
	report       Report
}

// listRun is the reading of one list, from its newest entry back to where the last
// run began.
type listRun struct {
	group  Group
	rank   int       // among the groups
	from   time.Time // older entries are done
	report *GroupReport

	seen     map[string]bool // the ids of the page before
	last     time.Time       // of the entry before
	newest   time.Time
	unsorted bool
	complete bool // it was read to its end

	blocked time.Time // when the oldest event happened that could not be recovered
}

// isDone takes in the time of the next entry, zero if it has none, and reports whether it was
// looked at before.
func (l *listRun) isDone(at time.Time) bool {
	if at.IsZero() {
		return false
	}
	l.unsorted = l.unsorted || !l.last.IsZero() && at.After(l.last)
	l.last, l.newest = at, later(at, l.newest)
	return at.Before(l.from)
}

// done reports that everything from here on was looked at before. A list that is
// not sorted as it was asked for is read to its end instead: nothing would be
// noticed of what is missed otherwise.
func (l *listRun) done() bool { return !l.unsorted && !l.last.IsZero() && l.last.Before(l.from) }

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

// isShort reports whether the lists of events can be left out: every event that the platform
// has tried to send is here, as its log says, and there is no reason to think that it did not
// try. A clock that was wrong, or is, is no reason to leave them out.
func (r *run) isShort() bool {
	age := r.now.Sub(r.checkpoint.Whole)
	return age >= 0 && age < r.wholeEvery && r.checkpoint.Outages == r.outages &&
		r.report.DeliveryLogErr == nil && len(r.missed) == 0
}

// wholeNext makes the next run a whole one, unless this one is and comes to its end.
func (r *run) wholeNext(ctx context.Context) error {
	if r.checkpoint.Whole.IsZero() {
		return nil
	}
	r.checkpoint.Whole = time.Time{}
	return r.save(ctx)
}

// save saves the checkpoint.
func (r *run) save(ctx context.Context) error {
	state, err := r.checkpoint.encode()
	if err != nil {
		return err
	}
	return r.lease.save(ctx, state)
}

// endsRun reports an error after which there is no point in going on with a run.
func endsRun(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, webhook.ErrInboxClosed) || errors.Is(err, api.ErrRateLimited) ||
		errors.Is(err, api.ErrUnauthorized) || errors.Is(err, api.ErrReauthorize)
}
