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

// retention is how long the platform keeps events. API section: "Limits".
const retention = 30 * 24 * time.Hour

// groups are the lists of events, in the order in which one thing leads to another, by
// what the types in them begin with.
var groups = []struct {
	object string
	of     func(events.Service) events.Group
}{
	{"clinic_key", func(s events.Service) events.Group { return s.ClinicKeys }},
	{"product", func(s events.Service) events.Group { return s.Products }},
	{"patient", func(s events.Service) events.Group { return s.Patients }},
	{"treatment_plan", func(s events.Service) events.Group { return s.TreatmentPlans }},
	{"order", func(s events.Service) events.Group { return s.Orders }},
}

// rank is the place of a type's group among groups, -1 if it has none.
func rank(t events.Type) int {
	object, _, _ := strings.Cut(string(t), ".")
	for i := range groups {
		if groups[i].object == object {
			return i
		}
	}
	return -1
}

func checkTypes(types []events.Type) error {
	for _, t := range types {
		if _, verb, _ := strings.Cut(string(t), "."); rank(t) < 0 || verb == "" {
			return rejected("--type", fmt.Sprintf("holds %q, which is no type of event: want one like patient.updated", string(t)))
		}
	}
	return nil
}

// compare puts events in the order in which they happened. Of events of one time the one
// that leads to others comes first.
func compare(a, b events.Event) int {
	return cmp.Or(
		a.CreatedAt.Compare(b.CreatedAt.Time),
		cmp.Compare(rank(a.Type), rank(b.Type)),
		-cmp.Compare(created(a), created(b)),
	)
}

// created returns 1 for an event that is the first of its object, else 0.
func created(e events.Event) int {
	if strings.HasSuffix(string(e.Type), ".created") {
		return 1
	}
	return 0
}

// listing is the reading of one list of events, the newest first, back to a time.
type listing struct {
	service events.Service
	group   int
	types   []events.Type
	floor   time.Time

	pages    int
	last     time.Time // of the event before
	newest   time.Time // of the events that are not after now
	now      time.Time
	unsorted bool
}

// read calls found for each event that the list has, which may be older than the floor,
// and have been there before. Where the platform gave no time that can be read, at is that
// of the event before it in the list.
func (l *listing) read(ctx context.Context, found func(e events.Event, at time.Time)) error {
	var ours []events.Type
	for _, t := range l.types {
		if rank(t) == l.group {
			ours = append(ours, t)
		}
	}
	options := events.ListOptions{SortBy: events.SortCreatedAt, SortOrder: api.SortOrderDescending}
	switch {
	case l.types != nil && len(ours) == 0:
		return nil
	case len(ours) == 1:
		options.Type = ours[0]
	}
	for page, err := range groups[l.group].of(l.service).Pages(ctx, options) {
		if err != nil {
			return fmt.Errorf("%s events: %w", groups[l.group].object, err)
		}
		l.pages++
		for _, e := range page.Items {
			at := l.follow(e)
			if e.ID != "" && (l.types == nil || slices.Contains(ours, e.Type)) {
				found(e, at)
			}
		}
		// A list that is not sorted as it was asked for is read to its end.
		if !l.unsorted && !l.last.IsZero() && l.last.Before(l.floor) {
			break
		}
	}
	return nil
}

// follow returns when an event happened, and keeps track of the order.
func (l *listing) follow(e events.Event) time.Time {
	at := e.CreatedAt.Time
	if at.IsZero() {
		return cmp.Or(l.last, l.floor)
	}
	l.unsorted = l.unsorted || !l.last.IsZero() && at.After(l.last)
	l.last = at
	if at.After(l.newest) && !at.After(l.now) {
		l.newest = at
	}
	return at
}
