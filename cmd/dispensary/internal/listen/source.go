package listen

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/filelock"
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
		withOverlap := start.Sub(g.overlap) >= overlapEvery
		if !withOverlap {
			l.enough = g.listed // usually one page
		}
		err := l.read(ctx, func(e events.Event, at time.Time) { s.find(g, e, at) })
		if err == nil || incomplete(err) {
			// Ignore dates in the future entirely, because this machine's clock may be fast.
			g.listed = later(g.listed, l.newest)
			result.Gap = result.Gap || !g.checked.IsZero() && g.checked.Before(start.Add(-retention))
			g.checked = start
			if withOverlap && l.since.Before(g.listed) {
				g.overlap = start
			}
		}
		result.Pages += l.pages
		failed = append(failed, err)
		if rejected(err) || ctx.Err() != nil {
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

// rejected reports whether the platform rejected the token.
func rejected(err error) bool {
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

// retention is the time for which the platform keeps events. API section: "Limits".
const retention = 30 * 24 * time.Hour

// rank returns the index of the type's group in [events.Groups], or -1 if it has none.
func rank(t events.Type) int { return slices.Index(events.Groups(), t.Group()) }

func checkTypes(types []events.Type) error {
	for _, t := range types {
		if _, verb, _ := strings.Cut(string(t), "."); rank(t) < 0 || verb == "" {
			return badSetting("--type", fmt.Sprintf("must be an event type such as patient.updated, not %q", string(t)))
		}
	}
	return nil
}

// compare orders events by time. If two events have the same time, the one that causes other
// events is first.
func compare(a, b events.Event) int {
	return cmp.Or(
		a.CreatedAt.Compare(b.CreatedAt.Time),
		cmp.Compare(rank(a.Type), rank(b.Type)),
		-cmp.Compare(created(a), created(b)),
	)
}

// created returns 1 for an event that creates its object, and 0 for others.
func created(e events.Event) int {
	if strings.HasSuffix(string(e.Type), ".created") {
		return 1
	}
	return 0
}

// listing reads the list of one group of events, newest first, back to the time since.
type listing struct {
	service events.Service
	group   events.Group
	types   []events.Type
	since   time.Time
	enough  time.Time // stop after the page that goes back to this time, zero for all pages
	now     time.Time

	pages    int
	last     time.Time // time of the previous event
	newest   time.Time // time of the newest event, except after now
	unsorted bool
}

// read calls found for each event since the time since, including known events. If an event
// has no readable time, at is the time of the previous event in the list.
func (l *listing) read(ctx context.Context, found func(e events.Event, at time.Time)) error {
	list := l.service.List(events.ListOptions{
		Since: l.since, Types: l.types, Groups: []events.Group{l.group}, SortOrder: api.SortOrderDescending,
	})
	for page, err := range list.Pages(ctx) {
		if err != nil {
			return fmt.Errorf("%s events: %w", strings.TrimSuffix(string(l.group), "s"), err)
		}
		l.pages++
		for _, e := range page.Items {
			if at := l.follow(e); e.ID != "" {
				found(e, at)
			}
		}
		if !l.unsorted && !l.last.IsZero() && l.last.Before(l.enough) {
			break
		}
	}
	return nil
}

// follow returns the time of an event. It detects lists that are not sorted by time.
func (l *listing) follow(e events.Event) time.Time {
	at := e.CreatedAt.Time
	if at.IsZero() {
		return cmp.Or(l.last, l.since)
	}
	l.unsorted = l.unsorted || !l.last.IsZero() && at.After(l.last)
	l.last = at
	if at.After(l.newest) && !at.After(l.now) {
		l.newest = at
	}
	return at
}

// ErrInUse is returned if another listener has locked the cursor file, or could lock it
// because the lock file was removed.
var ErrInUse = errors.New("listen: another listener uses this cursor file")

// cursorVersion is the version of the file format.
const cursorVersion = 1

// cursorState is the content of the cursor file, by names of sources and groups.
type cursorState struct {
	Version int                                  `json:"version"`
	Sources map[string]map[events.Group]progress `json:"sources"`
}

// progress is the position in the list of a group.
type progress struct {
	// From is a time of the platform's clock. All earlier events are done.
	From time.Time `json:"from"`

	// Checked is the time of the last read of the list, by the clock of this machine.
	Checked time.Time `json:"checked,omitzero"`

	// Done contains the times of the finished events since From.
	Done map[webhook.Key]time.Time `json:"done,omitempty"`
}

// cursor is the locked cursor file of a listener.
type cursor struct {
	path string
	lock *filelock.Lock
}

// openCursor locks and reads the file. A missing file is an empty cursor.
func openCursor(path string) (*cursor, cursorState, error) {
	empty := cursorState{Version: cursorVersion, Sources: map[string]map[events.Group]progress{}}
	lock, err := filelock.Acquire(path + ".lock")
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, empty, ErrInUse
	case err != nil:
		return nil, empty, fmt.Errorf("listen: cursor: %w", err)
	}
	c := &cursor{path, lock}
	var state cursorState
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return c, empty, nil
	case err == nil && (json.Unmarshal(content, &state) != nil || state.Version != cursorVersion || state.Sources == nil):
		err = errors.New("not a cursor file of this program version")
	}
	if err != nil {
		c.close()
		return nil, empty, fmt.Errorf("listen: cursor file %s: %w", filepath.Base(path), err)
	}
	return c, state, nil
}

// check returns [ErrInUse] if the lock file was removed, because then another listener can
// lock the cursor.
func (c *cursor) check() error {
	switch err := c.lock.Check(); {
	case errors.Is(err, filelock.ErrLost):
		return fmt.Errorf("%w: %s.lock was removed", ErrInUse, filepath.Base(c.path))
	case err != nil:
		return fmt.Errorf("listen: cursor: %w", err)
	}
	return nil
}

// save replaces the file, which is complete even if the process is killed. It returns the
// error of check.
func (c *cursor) save(state cursorState) error {
	if err := c.check(); err != nil {
		return err
	}
	content, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("listen: cursor: %w", err)
	}
	next := c.path + ".new"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("listen: cursor: %w", err)
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(next, c.path)
	}
	if err != nil {
		return fmt.Errorf("listen: cursor: %w", err)
	}
	return nil
}

func (c *cursor) close() { _ = c.lock.Close() }
