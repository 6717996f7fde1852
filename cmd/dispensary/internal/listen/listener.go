package listen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/webhook"
)

const (
	// maxFailures is the number of consecutive failed events after which all events wait.
	maxFailures = 3

	// saveEvery is the time between two writes of the cursor file while events are forwarded.
	saveEvery = time.Second

	// grace is the time that the receiver has for a started request when the listener stops.
	grace = 2 * time.Second

	// saveIdle is the time between two writes if no event is forwarded.
	saveIdle = time.Hour
)

// Listener forwards events. The package comment describes its guarantees. A Listener is not
// safe for concurrent use, but it can run again after Run has returned.
type Listener struct {
	config  Config
	since   time.Time // start without a cursor
	sources []*source
	waiting []*item // oldest first
	address backOff // wait of all events after failures of the receiver
	read    events.Event
	readOf  *source

	cursor *cursor
	state  cursorState // content of the file, including sources of other listeners
	saved  time.Time
	dirty  bool // the cursor file is out of date
}

// New returns a listener. It sends no request and does not open the cursor file. It returns an
// [*api.ArgumentError] for an invalid config.
func New(c Config) (*Listener, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	// The platform may truncate times to whole seconds.
	return &Listener{config: c, since: c.Now().Add(-c.Since).Truncate(time.Second)}, nil
}

// Run forwards events until ctx is canceled, writes the cursor file, and returns the cause. It
// returns earlier in these cases:
//
//   - [ErrInUse], or another error of the cursor file.
//   - [api.ErrUnauthorized] or [api.ErrReauthorize]: the platform rejects the tokens of all
//     sources.
//
// Call Run again only after it has returned.
func (l *Listener) Run(ctx context.Context) (err error) {
	ctx = apikit.WithPriority(ctx, api.PriorityEvent)
	cursor, state, err := openCursor(l.config.Cursor)
	if err != nil {
		return err
	}
	defer cursor.close()
	l.begin(cursor, state)
	if err := l.save(); err != nil { // so that the next run has the same start
		return err
	}
	defer func() {
		if unsaved := l.save(); unsaved != nil {
			err = errors.Join(err, unsaved)
		}
	}()
	for {
		next := l.config.Now().Add(l.config.Interval)
		if err := cursor.check(); err != nil {
			return err
		}
		if err := l.poll(ctx); err != nil {
			return err
		}
		for {
			wake, err := l.forward(ctx)
			if err != nil {
				return err
			}
			if wake.IsZero() || !later(wake, l.config.Now()).Before(next) {
				break
			}
			if err := l.pause(ctx, wake); err != nil {
				return err
			}
		}
		if err := l.pause(ctx, next); err != nil {
			return err
		}
	}
}

// begin loads the state of the cursor file.
func (l *Listener) begin(c *cursor, state cursorState) {
	l.cursor, l.state, l.sources, l.waiting, l.address, l.readOf = c, state, nil, nil, backOff{}, nil
	for _, given := range l.config.Sources {
		s := &source{Source: given}
		s.begin(state.Sources[given.Name], l.since)
		l.sources = append(l.sources, s)
	}
}

// pause waits until a time. It returns the cause if ctx is canceled.
func (l *Listener) pause(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(until.Sub(l.config.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// poll polls all sources concurrently.
func (l *Listener) poll(ctx context.Context) error {
	polls := make([]Poll, len(l.sources))
	var all sync.WaitGroup
	for i, s := range l.sources {
		all.Go(func() { polls[i] = s.poll(ctx, &l.config) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.dirty = l.dirty || l.config.Now().Sub(l.saved) >= saveIdle
	for _, s := range l.sources {
		slices.Reverse(s.found) // lists are newest first
		l.waiting = append(l.waiting, s.found...)
		l.dirty = l.dirty || len(s.found) > 0
	}
	slices.SortStableFunc(l.waiting, func(a, b *item) int { return compare(a.event, b.event) })
	var failed []error
	for _, p := range polls {
		l.config.PollEnd(p)
		if rejected(p.Err) {
			failed = append(failed, fmt.Errorf("listen: %s: %w", p.Source, p.Err))
		}
	}
	if len(failed) == len(l.sources) {
		return errors.Join(failed...)
	}
	return nil
}

// forward tries each due event, oldest first. It returns the time of the next due event, or
// zero if no event waits.
func (l *Listener) forward(ctx context.Context) (time.Time, error) {
	defer func() { l.waiting = slices.DeleteFunc(l.waiting, func(it *item) bool { return it.done }) }()
	held := map[webhook.OrderingKey]bool{} // blocked by an earlier event of the object
	failures := 0
	for _, it := range l.waiting {
		if !l.ready(it, held) {
			held[it.order] = true
			continue
		}
		failed, err := l.try(ctx, it, held)
		switch {
		case err != nil:
			return time.Time{}, err
		case failed:
			failures++
		case it.done:
			failures = 0
		}
		if failures == maxFailures {
			l.address.fail(&l.config)
		}
		if l.address.waits(&l.config) {
			break
		}
	}
	return l.wake(), l.saveIfDue(0)
}

// ready reports whether an event may be tried now.
func (l *Listener) ready(it *item, held map[webhook.OrderingKey]bool) bool {
	waits := l.address.waits(&l.config) || it.source.reading.waits(&l.config) || it.failing.waits(&l.config)
	return !waits && (it.order == "" || !held[it.order])
}

// wake returns the time of the first due event that no other event blocks, or zero if no event
// waits.
func (l *Listener) wake() (first time.Time) {
	held := map[webhook.OrderingKey]bool{}
	for _, it := range l.waiting {
		if it.done || it.order != "" && held[it.order] {
			continue
		}
		held[it.order] = true
		due := later(l.address.due, later(it.source.reading.due, it.failing.due))
		if first.IsZero() || due.Before(first) {
			first = due
		}
	}
	return first
}

// try loads an event and forwards it. failed reports whether the receiver failed. err is only
// set if the listener must stop.
func (l *Listener) try(ctx context.Context, it *item, held map[webhook.OrderingKey]bool) (failed bool, err error) {
	response := Response{Key: it.key, Type: it.event.Type, ClinicID: it.event.ClinicID, CreatedAt: it.at}
	e, err := l.get(ctx, it)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		it.attempts++
		response.Attempt, response.Err = it.attempts, err
		l.unread(it, &response)
		l.config.ForwardEnd(response)
		return false, l.saveIfDue(saveEvery)
	}
	it.order = webhook.ByObject(webhook.Delivery{Key: it.key, Type: e.Type, ClinicID: e.ClinicID}, e)
	if it.order != "" && held[it.order] {
		return false, nil
	}
	posting, cancel := lingering(ctx)
	response = l.config.Forwarder.Forward(posting, it.key, e)
	cancel()
	if response.Err != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	it.attempts++
	response.Attempt = it.attempts
	switch {
	case response.Err == nil:
		it.done, l.dirty = true, true
		l.address.reset()
	case response.unreachable:
		l.address.fail(&l.config)
	default:
		it.failing.fail(&l.config)
		held[it.order] = true
	}
	l.config.ForwardEnd(response)
	return response.Err != nil, l.saveIfDue(saveEvery)
}

// lingering returns a context that is canceled 2 seconds after ctx. A started request can thus
// finish on shutdown, and its event is not sent again.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	posting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return posting, func() { stop(); cancel() }
}

// get returns the event with its data, which lists omit. It loads an event once for all
// integrations.
func (l *Listener) get(ctx context.Context, it *item) (events.Event, error) {
	if l.readOf == it.source && l.read.ID == it.event.ID {
		return l.read, nil
	}
	l.readOf = nil
	got, err := it.source.Events.Get(ctx, it.event.ID)
	if err != nil {
		return events.Event{}, err
	}
	it.source.reading.reset()
	e := it.event // the fields of the list take precedence
	e.Data = got.Data
	l.read, l.readOf = e, it.source
	return e, nil
}

// unread delays an event that could not be read. Its first 3 failures delay all events of its
// source, to preserve the order. After that, or if the platform does not have the event, only
// its own retries wait. A missing event is dropped only if it is older than 30 days. Otherwise
// wrong responses, for example of a proxy, could drop all events.
func (l *Listener) unread(it *item, response *Response) {
	switch gone := errors.Is(response.Err, api.ErrNotFound); {
	case gone && it.at.Before(l.config.Now().Add(-retention)):
		it.done, l.dirty, response.Dropped = true, true, true
	case gone || it.attempts > maxFailures:
		it.failing.fail(&l.config)
	default:
		it.source.reading.fail(&l.config)
	}
}

// saveIfDue writes the cursor file if it is out of date and the last write was at least after
// ago.
func (l *Listener) saveIfDue(after time.Duration) error {
	if !l.dirty || l.config.Now().Sub(l.saved) < after {
		return nil
	}
	return l.save()
}

func (l *Listener) save() error {
	for _, s := range l.sources {
		through := map[events.Group]progress{}
		for _, g := range s.groups {
			through[g.name] = g.progress()
		}
		l.state.Sources[s.Name] = through
	}
	if err := l.cursor.save(l.state); err != nil {
		return err
	}
	l.saved, l.dirty = l.config.Now(), false
	return nil
}

// backOff is the wait after consecutive failures.
type backOff struct {
	failures int
	due      time.Time
}

func (b *backOff) waits(c *Config) bool { return c.Now().Before(b.due) }

func (b *backOff) fail(c *Config) {
	b.failures++
	b.due = c.Now().Add(jitter.Backoff(b.failures, firstBackOff, lastBackOff))
}

func (b *backOff) reset() { *b = backOff{} }
