package listen

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
)

// retention is the time for which the platform keeps events. API section: "Limits".
const retention = 30 * 24 * time.Hour

// rank returns the index of the type's group in [events.Groups], or -1 if it has none.
func rank(t events.Type) int { return slices.Index(events.Groups(), t.Group()) }

func checkTypes(types []events.Type) error {
	for _, t := range types {
		if _, verb, _ := strings.Cut(string(t), "."); rank(t) < 0 || verb == "" {
			return rejected("--type", fmt.Sprintf("must be an event type such as patient.updated, not %q", string(t)))
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
