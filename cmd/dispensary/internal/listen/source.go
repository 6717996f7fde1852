package listen

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// source is a [Source] and how far its groups have come.
type source struct {
	Source
	groups  []*group
	found   []*item // by the last poll
	reading backOff // the platform does not answer
}

// group is what is known of one list of events.
type group struct {
	name    events.Group
	from    time.Time // nothing that happened before is left to do
	listed  time.Time // the newest event that was there when the list was read
	checked time.Time // when it was
	overlap time.Time // when the overlap was read last
	known   map[webhook.Key]*item
}

// item is an event for one integration. It is known until nothing of its time is left to do.
type item struct {
	source *source
	event  events.Event // without data
	key    webhook.Key
	at     time.Time // when it happened
	done   bool

	attempts int
	failing  backOff
	order    webhook.OrderingKey // once its data was read
}

// overlapEvery is how often the overlap is read.
const overlapEvery = time.Minute

// begin takes up what the cursor says, and begins groups that it does not know at since.
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

// poll reads all lists, and leaves in s.found what is new.
func (s *source) poll(ctx context.Context, c *Config) Poll {
	start := c.Now()
	result := Poll{Source: s.Name}
	var failed []error
	s.found = nil
	for _, g := range s.groups {
		l := listing{service: s.Events, group: g.name, types: c.Types, since: later(g.from, g.listed.Add(-overlap)), now: start}
		whole := start.Sub(g.overlap) >= overlapEvery
		if !whole {
			l.enough = g.listed // one page, mostly
		}
		err := l.read(ctx, func(e events.Event, at time.Time) { s.find(g, e, at) })
		if err == nil || incomplete(err) {
			// A date in the future does not count, even up to now: the clock may be fast.
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

// incomplete reports a list that ended before its count. Reading it again at once would end at
// the same record, so the poll reports it and continues with what the list had. The overlap is
// read again for an event that is counted before it is listed.
func incomplete(err error) bool {
	var ended *api.IncompleteListError
	return errors.As(err, &ended)
}

// refused reports that the token is no longer one.
func refused(err error) bool {
	return errors.Is(err, api.ErrUnauthorized) || errors.Is(err, api.ErrReauthorize)
}

// find adds an event for each integration that it is not known for.
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

// progress moves the group on to before the oldest event that waits, and forgets what is
// older and done.
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
