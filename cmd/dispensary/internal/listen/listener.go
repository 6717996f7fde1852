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
	"github.com/dispensary-go/dispensary/internal/priority"
	"github.com/dispensary-go/dispensary/webhook"
)

const (
	// maxFailures is how many events in a row may fail before everything waits.
	maxFailures = 3

	// saveEvery is how often the cursor file is written while events are forwarded.
	saveEvery = time.Second

	// grace is how long the address may take for an event when the listener is to end.
	grace = 2 * time.Second

	// saveIdle is how often it is written where nothing happens.
	saveIdle = time.Hour
)

// Listener forwards events; the package comment says how.
type Listener struct {
	config  Config
	since   time.Time // where it begins without a cursor
	sources []*source
	waiting []*item // the oldest first
	address backOff // nothing gets through
	read    events.Event
	readOf  *source

	cursor *cursor
	state  cursorState // what the file says, also of sources that this listener does not have
	saved  time.Time
	dirty  bool // something is not in the cursor file
}

// New returns a listener. It sends nothing, and does not touch the cursor file. An error is
// an [*api.ArgumentError].
func New(c Config) (*Listener, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	// The platform may write times in whole seconds, and so earlier than they were.
	return &Listener{config: c, since: c.Now().Add(-c.Since).Truncate(time.Second)}, nil
}

// Run forwards events until ctx ends, writes the cursor file, and returns the cause. It ends
// before that with [ErrInUse], with an error of the cursor file, and, matching
// [api.ErrUnauthorized] or [api.ErrReauthorize], when the platform refuses the tokens of
// all sources. A listener runs once at a time; it can run again.
func (l *Listener) Run(ctx context.Context) (err error) {
	ctx = priority.WithDefault(ctx, api.PriorityEvent)
	cursor, state, err := openCursor(l.config.Cursor)
	if err != nil {
		return err
	}
	defer cursor.close()
	l.begin(cursor, state)
	if err := l.save(); err != nil { // so that the beginning is not forgotten
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

// begin starts from what the cursor file says.
func (l *Listener) begin(c *cursor, state cursorState) {
	l.cursor, l.state, l.sources, l.waiting, l.address, l.readOf = c, state, nil, nil, backOff{}, nil
	for _, given := range l.config.Sources {
		s := &source{Source: given}
		s.begin(state.Sources[given.Name], l.since)
		l.sources = append(l.sources, s)
	}
}

// pause waits until a time, or fails with the cause of the end.
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

// poll asks for the new events of all sources at the same time.
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
		slices.Reverse(s.found) // lists have the newest first
		l.waiting = append(l.waiting, s.found...)
		l.dirty = l.dirty || len(s.found) > 0
	}
	slices.SortStableFunc(l.waiting, func(a, b *item) int { return compare(a.event, b.event) })
	var failed []error
	for _, p := range polls {
		l.config.PollEnd(p)
		if refused(p.Err) {
			failed = append(failed, fmt.Errorf("listen: %s: %w", p.Source, p.Err))
		}
	}
	if len(failed) == len(l.sources) {
		return errors.Join(failed...)
	}
	return nil
}

// forward tries every event that is due, the oldest first, and returns when the next one
// will be; zero if none waits.
func (l *Listener) forward(ctx context.Context) (time.Time, error) {
	defer func() { l.waiting = slices.DeleteFunc(l.waiting, func(it *item) bool { return it.done }) }()
	held := map[webhook.OrderingKey]bool{} // by an earlier event of the object
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

// ready reports that an event may be tried.
func (l *Listener) ready(it *item, held map[webhook.OrderingKey]bool) bool {
	waits := l.address.waits(&l.config) || it.source.reading.waits(&l.config) || it.failing.waits(&l.config)
	return !waits && (it.order == "" || !held[it.order])
}

// wake returns when the first event is due, of those that no other holds; zero if none
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

// try reads an event and forwards it, and returns whether that failed. It returns an error
// only where the listener ends.
func (l *Listener) try(ctx context.Context, it *item, held map[webhook.OrderingKey]bool) (failed bool, err error) {
	answer := Answer{Key: it.key, Type: it.event.Type, ClinicID: it.event.ClinicID, CreatedAt: it.at}
	e, err := l.get(ctx, it)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		it.attempts++
		answer.Attempt, answer.Err = it.attempts, err
		l.unread(it, &answer)
		l.config.ForwardEnd(answer)
		return false, l.saveIfDue(saveEvery)
	}
	it.order = webhook.ByObject(webhook.Delivery{Key: it.key, Type: e.Type, ClinicID: e.ClinicID}, e)
	if it.order != "" && held[it.order] {
		return false, nil
	}
	posting, cancel := lingering(ctx)
	answer = l.config.Forwarder.Forward(posting, it.key, e)
	cancel()
	if answer.Err != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	it.attempts++
	answer.Attempt = it.attempts
	switch {
	case answer.Err == nil:
		it.done, l.dirty = true, true
		l.address.reset()
	case answer.unreachable:
		l.address.fail(&l.config)
	default:
		it.failing.fail(&l.config)
		held[it.order] = true
	}
	l.config.ForwardEnd(answer)
	return answer.Err != nil, l.saveIfDue(saveEvery)
}

// lingering returns a context that ends a moment after ctx: an event that is under way when
// the listener is to end arrives, and is not sent again.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	posting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return posting, func() { stop(); cancel() }
}

// get returns the event with its data, which lists leave out. An event for several
// integrations is read once.
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
	e := it.event // the list knows the event best
	e.Data = got.Data
	l.read, l.readOf = e, it.source
	return e, nil
}

// unread has an event wait that could not be read, and at first everything of its source, so
// that the order is kept. One that the platform has no longer is dropped once it is older than
// what the platform keeps: an answer that is not the platform's must not end in losing
// everything there is.
func (l *Listener) unread(it *item, answer *Answer) {
	switch gone := errors.Is(answer.Err, api.ErrNotFound); {
	case gone && it.at.Before(l.config.Now().Add(-retention)):
		it.done, l.dirty, answer.Dropped = true, true, true
	case gone || it.attempts > maxFailures:
		it.failing.fail(&l.config)
	default:
		it.source.reading.fail(&l.config)
	}
}

// saveIfDue writes the cursor file if there is something new and the last time is long
// enough ago.
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

// backOff is the wait after failures in a row.
type backOff struct {
	failures int
	due      time.Time
}

func (b *backOff) waits(c *Config) bool { return c.Now().Before(b.due) }

func (b *backOff) fail(c *Config) {
	b.failures++
	b.due = c.Now().Add(webhook.RetryPolicy{BackOff: firstBackOff, MaxBackOff: lastBackOff}.Wait(b.failures))
}

func (b *backOff) reset() { *b = backOff{} }
