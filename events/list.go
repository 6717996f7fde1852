package events

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/resource"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Group is one of the platform's lists of events, by the last part of its path.
// A token needs the scope of a group to read it.
// API section: "Events".
type Group string

// The groups of events. Each has its own list on the platform.
const (
	GroupClinicKeys     Group = "clinic_keys"
	GroupProducts       Group = "products"
	GroupPatients       Group = "patients"
	GroupTreatmentPlans Group = "treatment_plans"
	GroupOrders         Group = "orders"
)

// groups are the groups in the order of cause and effect, with the first part of their types.
var groups = []struct {
	Group
	object string
	list   *operation.Operation
}{
	{GroupClinicKeys, "clinic_key", operation.ClinicKeyEventList},
	{GroupProducts, "product", operation.ProductEventList},
	{GroupPatients, "patient", operation.PatientEventList},
	{GroupTreatmentPlans, "treatment_plan", operation.TreatmentPlanEventList},
	{GroupOrders, "order", operation.OrderEventList},
}

// Groups returns all groups, in the order of cause and effect: patients before their orders.
func Groups() []Group {
	all := make([]Group, len(groups))
	for i, g := range groups {
		all[i] = g.Group
	}
	return all
}

// Group returns the group with the events of the type, or "" if there is none.
func (t Type) Group() Group {
	object := t.object()
	for _, g := range groups {
		if g.object == object {
			return g.Group
		}
	}
	return ""
}

// ListOptions filter and sort events. The zero value selects all events of the last 30 days,
// the oldest first.
// API section: "Events".
type ListOptions struct {
	// Since is the time of the oldest event to return. Zero means 30 days ago. The API filters
	// by day, so List drops the earlier events of the first day. It always returns an event
	// without a readable time.
	Since time.Time

	// Types are the types of event to return. Empty means all. List reads only the groups of
	// these types. If Groups excludes all of them, the list is empty.
	Types []Type

	// Groups are the groups to read. Empty means all. Leave out groups for which the token has
	// no scope.
	Groups []Group

	// SortOrder is the order by time. Empty means [api.SortOrderAscending]. With
	// [api.SortOrderDescending] List stops reading a group at Since.
	SortOrder api.SortOrder
}

// List returns the matching events of all groups in one list, without their Data.
// [Service.Get] returns an event with its Data.
//
// Ascending order lets you continue after an interruption. Set Since to the time of the last
// event, and skip the events of that time that you already have, by ID and IntegrationID. An
// event may appear twice if new events arrive meanwhile. A clinic with several integrations
// may have an event once for each.
//
// A list of one group has the pages of the platform, with the matching events only. A list of
// several groups merges them while you read. It keeps a page of each group, or n pages of each
// with Prefetch(n). Its pages have no counts. StartAt(2) is an [*api.ArgumentError]: set Since
// instead. An error of one group ends the list.
//
// Assumption: created_at accepts the comparison that the API shows for orders. List requests
// one day more than Since needs, because the platform does not state the time zone of its
// days.
// API section: GET /events/clinic_keys, /events/orders, /events/patients, /events/products, /events/treatment_plans.
func (s Service) List(o ListOptions, options ...api.RequestOption) *api.List[Event] {
	l := lister{client: s.t, since: o.Since, descending: o.SortOrder == api.SortOrderDescending}
	l.wrong = check(o)
	for rank, g := range groups {
		if len(o.Groups) > 0 && !slices.Contains(o.Groups, g.Group) {
			continue
		}
		src := source{rank: rank}
		for _, t := range o.Types {
			if t.Group() == g.Group && !slices.Contains(src.types, t) {
				src.types = append(src.types, t)
			}
		}
		if len(o.Types) > 0 && len(src.types) == 0 {
			continue
		}
		q := listQuery{SortBy: "created_at", SortOrder: o.SortOrder}
		if len(src.types) == 1 {
			q.Type, src.types = src.types[0], nil
		}
		if !l.descending {
			q.CreatedAt = resource.Period{Since: o.Since}
		}
		src.list = transport.NewList[Event](s.t, transport.Call{Operation: g.list, Query: q, Options: options})
		l.sources = append(l.sources, src)
	}
	return api.NewList(l.pages)
}

// listQuery is the query of a group.
type listQuery struct {
	CreatedAt resource.Period `url:"created_at"`
	Type      Type            `url:"event_type,omitempty"`
	SortBy    string          `url:"sort_by"`
	SortOrder api.SortOrder   `url:"order_by,omitempty"`
}

// check reports types and groups unknown to the platform.
func check(o ListOptions) (wrong api.ArgumentErrors) {
	for i, t := range o.Types {
		if _, verb, _ := strings.Cut(string(t), "."); t.Group() == "" || verb == "" {
			wrong = append(wrong, &api.ArgumentError{Field: fmt.Sprintf("Types[%d]", i), Reason: "must be a type of event, such as patient.updated"})
		}
	}
	for i, g := range o.Groups {
		if !slices.Contains(Groups(), g) {
			wrong = append(wrong, &api.ArgumentError{Field: fmt.Sprintf("Groups[%d]", i), Reason: "must be a group of events, such as patients"})
		}
	}
	return wrong
}

// source is the list of a group.
type source struct {
	list  *api.List[Event]
	rank  int    // of the group
	types []Type // to return; nil means all
}

// lister reads the groups of one list. It never changes.
type lister struct {
	client     *transport.Client
	since      time.Time
	descending bool
	sources    []source
	wrong      api.ArgumentErrors
}

// pages returns the pages of the groups, merged if there are several.
func (l lister) pages(ctx context.Context, s api.ListSettings) iter.Seq2[*api.Page[Event], error] {
	wrong := l.wrong
	if s.StartAt > 1 && len(l.sources) > 1 {
		wrong = append(slices.Clip(wrong), &api.ArgumentError{Field: "page[number]", Reason: "must be 1 for several groups: set Since"})
	}
	switch err := wrong.Err(); {
	case err != nil:
		return func(yield func(*api.Page[Event], error) bool) { yield(nil, err) }
	case len(l.sources) == 0:
		return func(func(*api.Page[Event], error) bool) {}
	case len(l.sources) == 1:
		return l.read(ctx, l.sources[0], s)
	}
	return func(yield func(*api.Page[Event], error) bool) { l.merge(ctx, s, yield) }
}

// read returns the pages of one group, with the matching events.
func (l lister) read(ctx context.Context, src source, s api.ListSettings) iter.Seq2[*api.Page[Event], error] {
	list := src.list.StartAt(s.StartAt).PageSize(s.PageSize).Limit(s.Limit).Prefetch(s.Prefetch).OnDrift(s.OnDrift)
	if s.Limit > 0 && (src.types != nil || !l.descending && !l.since.IsZero()) {
		list = list.Limit(0) // it would count all events
	}
	return func(yield func(*api.Page[Event], error) bool) {
		f := filter{lister: l, types: src.types}
		resource.Pages(list.Pages(ctx), s.Limit, f.keep, yield)
	}
}

// filter selects the matching events of a group.
type filter struct {
	lister
	types    []Type
	seen     map[identity]bool // on the previous page
	last     time.Time         // of the previous event
	unsorted bool
}

// identity identifies an event.
type identity struct{ id, integrationID string }

// keep returns the matching events of a page, and whether it is the last page. In descending
// order, new events push older ones from the end of a page to the beginning of the next, so
// keep drops repeated events.
func (f *filter) keep(page []Event) (kept []Event, last bool) {
	kept = page[:0]
	seen := make(map[identity]bool, len(page))
	for _, e := range page {
		key := identity{e.ID, e.IntegrationID}
		if e.ID != "" {
			seen[key] = true
		}
		if f.seen[key] {
			continue
		}
		if at := e.CreatedAt.Time; !at.IsZero() {
			f.unsorted = f.unsorted || at.After(f.last) && !f.last.IsZero()
			f.last = at
			if at.Before(f.since) {
				continue
			}
		}
		if f.types == nil || slices.Contains(f.types, e.Type) {
			kept = append(kept, e)
		}
	}
	f.seen = seen
	return kept, f.isPast()
}

// isPast reports whether all later pages are older than since. An unsorted list is read to its
// end.
func (f *filter) isPast() bool {
	return f.descending && !f.unsorted && !f.last.IsZero() && f.last.Before(f.since)
}

// mergedPageSize is the default number of events on a merged page.
const mergedPageSize = 100

// merge yields the events of several groups in one order. It yields a page before it waits
// for a group, so a consumer with enough events causes no further request.
func (l lister) merge(ctx context.Context, s api.ListSettings, yield func(*api.Page[Event], error) bool) {
	ctx = l.client.OneAccount(ctx)
	var streams []*stream
	defer func() {
		for _, one := range streams {
			one.stop()
		}
	}()
	report := s.OnDrift
	for _, src := range l.sources {
		one := &stream{rank: src.rank}
		if report != nil {
			s.OnDrift = func(d api.Drift) { one.drifts = append(one.drifts, d) }
		}
		one.next, one.stop = iter.Pull2(l.read(ctx, src, s))
		streams = append(streams, one)
	}
	if s.Prefetch > 1 {
		fillAll(streams)
	}
	for _, one := range streams {
		one.reportDrifts(report)
	}
	page, left := newMergedPage(1), s.Limit
	flush := func() bool {
		full := page
		page = newMergedPage(page.Meta.CurrentPage + 1)
		return yield(full, nil)
	}
	for {
		for _, one := range streams {
			if one.isFilled() {
				continue
			}
			if len(page.Items) > 0 && !flush() {
				return
			}
			one.fill()
			one.reportDrifts(report)
			if one.err != nil {
				yield(nil, one.err)
				return
			}
		}
		first := l.first(streams)
		if first == nil {
			break
		}
		page.Items = append(page.Items, first.take())
		left--
		if (len(page.Items) == cmp.Or(s.PageSize, mergedPageSize) || left == 0) && !flush() || left == 0 {
			return
		}
	}
	if len(page.Items) > 0 {
		flush()
	}
}

func newMergedPage(number int) *api.Page[Event] {
	return &api.Page[Event]{Meta: api.Meta{CurrentPage: number}}
}

// first returns the stream of the next event, or nil if there is none. Of events with the same
// time, the cause is older than its effect.
func (l lister) first(streams []*stream) (first *stream) {
	for _, one := range streams {
		if len(one.items) == 0 {
			continue
		}
		if first == nil || (one.compare(first) < 0) != l.descending {
			first = one
		}
	}
	return first
}

// stream is the reading position in a group.
type stream struct {
	rank  int
	next  func() (*api.Page[Event], error, bool)
	stop  func()
	items []Event // the next events
	last  time.Time
	err   error
	ended bool

	drifts []api.Drift // not reported yet, because another goroutine may fill the stream

	unwound  bool // by a panic, or by [runtime.Goexit] if panicked is nil
	panicked any
}

// isFilled reports whether fill has nothing to do.
func (s *stream) isFilled() bool { return len(s.items) > 0 || s.ended }

// fill reads pages until one has an event.
func (s *stream) fill() {
	for !s.isFilled() && s.err == nil {
		page, err, more := s.next()
		switch {
		case !more:
			s.ended = true
		case err != nil:
			s.err = err
		default:
			s.items = page.Items
		}
	}
}

// reportDrifts reports the drifts of the pages that fill has read.
func (s *stream) reportDrifts(report func(api.Drift)) {
	for _, d := range s.drifts {
		report(d)
	}
	s.drifts = nil
}

// take removes the next event.
func (s *stream) take() Event {
	s.last = s.time()
	e := s.items[0]
	s.items = s.items[1:]
	return e
}

// time returns the time of the next event. An event without a readable time follows the
// previous event.
func (s *stream) time() time.Time {
	if at := s.items[0].CreatedAt.Time; !at.IsZero() {
		return at
	}
	return s.last
}

func (s *stream) compare(other *stream) int {
	return cmp.Or(s.time().Compare(other.time()), cmp.Compare(s.rank, other.rank))
}

// fillAll reads the first pages of all streams at the same time. It raises a panic of a stream
// in the caller's goroutine.
func fillAll(streams []*stream) {
	var filling sync.WaitGroup
	for _, one := range streams {
		filling.Go(func() {
			one.unwound = true
			defer func() {
				if one.unwound {
					one.panicked = recover()
				}
			}()
			one.fill()
			one.unwound = false
		})
	}
	filling.Wait()
	for _, one := range streams {
		switch {
		case one.panicked != nil:
			panic(one.panicked)
		case one.unwound:
			runtime.Goexit()
		}
	}
}
