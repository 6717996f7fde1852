package listen

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// source is a [Source] with the positions in its lists.
type source struct {
	Source
	groups  []*group
	found   []*item // new events of the last poll
	reading backOff // wait after the platform failed
}

// group is the state of one event list.
type group struct {
	name    events.Group
	from    time.Time // all earlier events are done
	listed  time.Time // time of the newest event at the last read
	checked time.Time // time of the last read
	overlap time.Time // time of the last read of the overlap
	known   map[webhook.Key]*item
}

// item is an event for one integration. It is stored until all events of its time are done.
type item struct {
	source *source
	event  events.Event // without data
	key    webhook.Key
	at     time.Time // time of the event
	done   bool

	attempts int
	failing  backOff
	order    webhook.OrderingKey // set after its data was read
}

// overlapEvery is the time between two reads of the overlap.
const overlapEvery = time.Minute

// begin restores the positions of the cursor. Groups without one start at since.
func (s *source) begin(saved map[events.Group]progress, since time.Time) {
	for _, name := range events.Groups() {
		g := &group{name: name, from: since, known: map[webhook.Key]*item{}}
		if p, ok := saved[name]; ok {
			g.from, g.checked = p.From, p.Checked
			for key, at := range p.Done {
				g.known[key] = &item{source: s, key: key, at: at, done: true}
			}
		}
		s.groups = append(s.groups, g)
	}
}

// poll reads all lists and stores the new events in s.found.
func (s *source) poll(ctx context.Context, c *Config) Poll {
	start := c.Now()
	result := Poll{Source: s.Name}
	var failed []error
	s.found = nil
	for _, g := range s.groups {
		l := listing{service: s.Events, group: g.name, types: c.Types, since: later(g.from, g.listed.Add(-overlap)), now: start}
		whole := start.Sub(g.overlap) >= overlapEvery
		if !whole {
			l.enough = g.listed // usually one page
		}
		err := l.read(ctx, func(e events.Event, at time.Time) { s.find(g, e, at) })
		if err == nil || incomplete(err) {
			// Ignore dates in the future entirely, because this machine's clock may be fast.
			g.listed = later(g.listed, l.newest)
			result.Gap = result.Gap || !g.checked.IsZero() && g.checked.Before(start.Add(-retention))
			g.checked = start
			if whole && l.since.Before(g.listed) {
				g.overlap = start
			}
		}
		result.Pages += l.pages
		failed = append(failed, err)
		if refused(err) || ctx.Err() != nil {
			break
		}
	}
	result.Err = errors.Join(failed...)
	return result
}

// incomplete reports whether a list had fewer events than its count. An immediate retry would
// stop at the same record, so the poll reports the error and uses the events of the list. The
// platform may count an event before it lists it. Later reads of the overlap find that event.
func incomplete(err error) bool {
	var ended *api.IncompleteListError
	return errors.As(err, &ended)
}

// refused reports whether the platform rejected the token.
func refused(err error) bool {
	return errors.Is(err, api.ErrUnauthorized) || errors.Is(err, api.ErrReauthorize)
}

// find adds an event for each integration for which it is new.
func (s *source) find(g *group, e events.Event, at time.Time) {
	if at.Before(g.from) {
		return
	}
	e.Data = nil
	for _, id := range s.Integrations {
		key := webhook.Key{Environment: s.Environment, EventID: e.ID, IntegrationID: id}
		if g.known[key] == nil {
			g.known[key] = &item{source: s, event: e, key: key, at: at}
			s.found = append(s.found, g.known[key])
		}
	}
}

// progress advances the group to just before the oldest waiting event, and removes older
// events that are done.
func (g *group) progress() progress {
	from := g.from
	if !g.listed.IsZero() {
		from = later(from, g.listed.Add(-overlap))
	}
	for _, it := range g.known {
		if !it.done {
			from = earlier(from, it.at)
		}
	}
	g.from = from
	p := progress{From: from, Checked: g.checked, Done: map[webhook.Key]time.Time{}}
	for key, it := range g.known {
		switch {
		case it.done && it.at.Before(from):
			delete(g.known, key)
		case it.done:
			p.Done[key] = it.at
		}
	}
	return p
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
