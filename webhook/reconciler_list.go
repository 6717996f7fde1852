package webhook

import (
	"context"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
)

// maxKeys is how many keys an inbox is asked about at a time.
const maxKeys = 300

// walk is the walk through one group, from its newest event back to where the
// last run began.
type walk struct {
	group  EventGroup
	rank   int       // among the groups
	from   time.Time // what is older is settled
	report *GroupReport

	seen     map[string]bool // the ids of the page before
	last     time.Time       // of the event before
	newest   time.Time
	unsorted bool
	listed   bool // to its end

	stuck time.Time // when the oldest event happened that could not be read
}

// missed is an event that the inbox has not seen.
type missed struct {
	event events.Event // without Data if it has to be read
	keys  []Key        // by which it was, or would have been, sent
	walk  *walk
	seat  int  // in the order in which it was found
	bare  bool // it was sent without an integration
}

// listGroup walks a group and notes what the inbox has not seen. It returns an
// error only where the run ends by it.
func (n *run) listGroup(ctx context.Context, w *walk) error {
	options := events.ListOptions{SortBy: events.ByCreatedAt, Order: api.Descending}
	for page, err := range n.group(w.group).Pages(ctx, options) {
		if err != nil {
			w.report.Err = err
			if ends(ctx, err) {
				return err
			}
			return nil
		}
		n.report.Pages++
		listed := w.sift(page.Items)
		w.report.Listed += len(listed)
		if err := n.look(ctx, listed, w); err != nil {
			return err
		}
		if w.over() {
			break
		}
	}
	w.listed = true
	return nil
}

func (n *run) group(g EventGroup) events.Group {
	service := n.config.Events
	switch g {
	case GroupClinicKeys:
		return service.ClinicKeys
	case GroupProducts:
		return service.Products
	case GroupPatients:
		return service.Patients
	case GroupTreatmentPlans:
		return service.TreatmentPlans
	}
	return service.Orders
}

// sift returns the events of a page that may be news. What happens meanwhile
// moves events from the end of a page to the beginning of the next.
func (w *walk) sift(page []events.Event) (news []events.Event) {
	seen := make(map[string]bool, len(page))
	for _, e := range page {
		seen[e.ID] = true
		if e.ID == "" || w.seen[e.ID] {
			continue
		}
		if at := e.CreatedAt.Time; !at.IsZero() {
			w.unsorted = w.unsorted || !w.last.IsZero() && at.After(w.last)
			w.last, w.newest = at, later(at, w.newest)
			if at.Before(w.from) {
				continue
			}
		}
		news = append(news, e)
	}
	w.seen = seen
	return news
}

// over reports that everything from here on is settled. A list that is not
// sorted as it was asked for is walked to its end instead: nothing would be
// noticed of what is missed otherwise.
func (w *walk) over() bool { return !w.unsorted && !w.last.IsZero() && w.last.Before(w.from) }

// look notes which of the events the inbox has not seen, and for which of the
// integrations. One that came without an integration came for all.
func (n *run) look(ctx context.Context, listed []events.Event, w *walk) error {
	missing, err := n.missing(ctx, listed)
	if err != nil {
		return err
	}
	for _, e := range listed {
		if !missing[n.key(e, "")] {
			continue
		}
		var unseen []Key
		for _, id := range n.integrations {
			if key := n.key(e, id); missing[key] {
				unseen = append(unseen, key)
			}
		}
		if len(unseen) > 0 {
			n.miss(e, unseen, w)
		}
	}
	return nil
}

func (n *run) key(e events.Event, integration string) Key {
	return Key{Environment: n.config.Environment, EventID: e.ID, IntegrationID: integration}
}

// missing asks the inbox about all keys that events can have.
func (n *run) missing(ctx context.Context, listed []events.Event) (map[Key]bool, error) {
	var keys []Key
	for _, e := range listed {
		keys = append(keys, n.key(e, ""))
		for _, id := range n.integrations {
			keys = append(keys, n.key(e, id))
		}
	}
	all := map[Key]bool{}
	for few := range slices.Chunk(keys, maxKeys) {
		missing, err := n.config.Inbox.Missing(ctx, few)
		if err != nil {
			return nil, err
		}
		for _, key := range missing {
			all[key] = true
		}
	}
	return all, nil
}

// miss notes an event that was missed.
func (n *run) miss(e events.Event, unseen []Key, w *walk) {
	w.report.Missed++
	m := n.found[e.ID]
	if m == nil {
		m = &missed{seat: len(n.found)}
		n.found[e.ID] = m
	}
	// The list has the last word on the event, the notice on how it was sent.
	e.Data = m.event.Data
	m.event, m.walk = e, w
	for _, key := range unseen {
		if !m.bare && !slices.Contains(m.keys, key) {
			m.keys = append(m.keys, key)
		}
	}
}
