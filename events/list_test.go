package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

// record is a transport that serves event lists like the platform.
type record struct {
	mu       sync.Mutex
	groups   map[events.Group][]events.Event // the oldest first
	requests []*http.Request
	before   func(*http.Request) error // called for each request, unless nil
	ignores  bool                      // ignores the order
}

func (r *record) add(at time.Time, kind events.Type, id string) {
	r.groups[kind.Group()] = append(r.groups[kind.Group()], events.Event{ID: id, Type: kind, CreatedAt: api.Timestamp{Time: at}})
}

func (r *record) RoundTrip(request *http.Request) (*http.Response, error) {
	if r.before != nil {
		if err := r.before(request); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request)
	query := request.URL.Query()
	number := func(name string) (n int) {
		n, _ = strconv.Atoi(query.Get(name))
		return n
	}
	var found []events.Event
	for _, e := range r.groups[events.Group(path.Base(request.URL.Path))] {
		kind, day := query.Get("event_type"), query.Get("created_at")
		if (kind == "" || kind == string(e.Type)) && (e.CreatedAt.IsZero() || day == "" || ">"+e.CreatedAt.Format(time.DateOnly) > day) {
			found = append(found, e)
		}
	}
	if !r.ignores && query.Get("order_by") == "DESC" {
		slices.Reverse(found)
	}
	size, page := number("page[size]"), number("page[number]")
	total := len(found)
	found = found[min((page-1)*size, total):min(page*size, total)]
	body, err := json.Marshal(map[string]any{"events": append([]events.Event{}, found...), "meta": api.Meta{
		CurrentPage: page, TotalPages: max(1, (total+size-1)/size), TotalCount: total,
	}})
	return &http.Response{
		StatusCode: http.StatusOK, Request: request, Header: http.Header{"X-Request-Id": {"r"}}, Body: io.NopCloser(strings.NewReader(string(body))),
	}, err
}

// asked returns the groups and pages of the requests, sorted.
func (r *record) asked() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, request := range r.requests {
		all = append(all, path.Base(request.URL.Path)+" "+request.URL.Query().Get("page[number]"))
	}
	slices.Sort(all)
	return all
}

func newRecord(t *testing.T) (*record, events.Service) {
	t.Helper()
	r := &record{groups: map[events.Group][]events.Event{}}
	platform := dispensarytest.New(t, dispensarytest.WithInMemory())
	return r, platform.Client(model.User{}, dispensary.WithTransport(r)).Events
}

// oneOfEach contains a type of each group, in the order of the groups.
var oneOfEach = []events.Type{
	events.TypeClinicKeyActivated, events.TypeProductUpdated, events.TypePatientCreated, events.TypeTreatmentPlanCreated, events.TypeOrderPlaced,
}

// fill adds n events of all groups, two at the same time every hour. It returns their IDs, the
// oldest first.
func (r *record) fill(n int) (ids []string) {
	for i := range n {
		at := begins.Add(time.Duration(i/2) * time.Hour)
		id := fmt.Sprint("evt_", i)
		r.add(at, oneOfEach[(i*7+i/10)%5], id)
		ids = append(ids, id)
	}
	slices.SortStableFunc(ids, func(a, b string) int { return compare(r.event(a), r.event(b)) })
	return ids
}

func (r *record) event(id string) events.Event {
	for _, group := range r.groups {
		for _, e := range group {
			if e.ID == id {
				return e
			}
		}
	}
	panic("no event " + id)
}

func compare(a, b events.Event) int {
	if at := a.CreatedAt.Compare(b.CreatedAt.Time); at != 0 {
		return at
	}
	return slices.Index(oneOfEach, a.Type) - slices.Index(oneOfEach, b.Type)
}

func idsOf(list []events.Event) []string {
	ids := []string{}
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return ids
}

func collect(t *testing.T, list *api.List[events.Event]) []string {
	t.Helper()
	return idsOf(resourcetest.Collect(t, list.All(t.Context())))
}

func TestListMergesGroups(t *testing.T) {
	t.Parallel()
	for _, order := range []api.SortOrder{"", api.SortOrderAscending, api.SortOrderDescending} {
		for _, size := range []int{0, 1, 7} {
			for _, prefetch := range []int{0, 3} {
				t.Run(fmt.Sprintf("%s, size %d, prefetch %d", order, size, prefetch), func(t *testing.T) {
					t.Parallel()
					r, service := newRecord(t)
					want := r.fill(100)
					if order == api.SortOrderDescending {
						slices.Reverse(want)
					}
					list := service.List(events.ListOptions{SortOrder: order}).PageSize(size).Prefetch(prefetch)
					assert.Equal(t, want, collect(t, list))
					assert.Equal(t, want, collect(t, list), "a list must be readable twice")
					assert.Equal(t, want[:33], collect(t, list.Limit(33)))
					number := 0
					var paged []string
					for page, err := range list.Pages(t.Context()) {
						require.NoError(t, err)
						number++
						assert.Equal(t, number, page.Meta.CurrentPage)
						assert.LessOrEqual(t, len(page.Items), max(size, 100*(1-min(size, 1))))
						assert.NotEmpty(t, page.Items)
						paged = append(paged, idsOf(page.Items)...)
					}
					assert.Equal(t, want, paged)
				})
			}
		}
	}
}

func TestListOfNoEventsIsEmpty(t *testing.T) {
	t.Parallel()
	r, service := newRecord(t)
	assert.Empty(t, collect(t, service.List(events.ListOptions{})))
	assert.Len(t, r.asked(), 5)
	page, err := service.List(events.ListOptions{}).Page(t.Context())
	require.NoError(t, err)
	assert.Empty(t, page.Items)
}

func TestListReturnsEventsSinceTime(t *testing.T) {
	t.Parallel()
	for _, group := range [][]events.Group{nil, {events.GroupOrders}} {
		for _, order := range []api.SortOrder{"", api.SortOrderDescending} {
			t.Run(fmt.Sprint(group, order), func(t *testing.T) {
				t.Parallel()
				r, service := newRecord(t)
				since := begins.In(time.FixedZone("west", -9*3600))
				for i, at := range []time.Duration{-75 * time.Hour, -25 * time.Hour, -time.Second, 0, time.Hour} {
					r.add(begins.Add(at), events.TypeOrderPlaced, fmt.Sprint("evt_", i))
				}
				r.add(time.Time{}, events.TypeOrderPlaced, "without a time")
				got := collect(t, service.List(events.ListOptions{Since: since, Groups: group, SortOrder: order}))
				want := []string{"evt_3", "evt_4", "without a time"}
				if order != "" {
					slices.Reverse(want)
				}
				assert.Equal(t, want, got)
				for _, request := range r.requests {
					query := request.URL.Query()
					assert.Equal(t, "created_at", query.Get("sort_by"))
					assert.Equal(t, string(order), query.Get("order_by"))
					day := ">2026-03-02" // March 3 may begin on the 4th in another zone
					if order != "" {
						day = ""
					}
					assert.Equal(t, day, query.Get("created_at"))
				}
			})
		}
	}
}

func TestListContinuesFromLastEvent(t *testing.T) {
	t.Parallel()
	r, service := newRecord(t)
	want := r.fill(60)
	var got []string
	var last time.Time
	for e, err := range service.List(events.ListOptions{}).All(t.Context()) {
		require.NoError(t, err)
		got, last = append(got, e.ID), e.CreatedAt.Time
		if len(got) == 25 {
			break
		}
	}
	for e, err := range service.List(events.ListOptions{Since: last}).All(t.Context()) {
		require.NoError(t, err)
		if !slices.Contains(got, e.ID) {
			got = append(got, e.ID)
		}
	}
	assert.Equal(t, want, got)
}

func TestDescendingListStopsAtSince(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{0, 2} {
		r, service := newRecord(t)
		ids := r.fill(500)
		slices.Reverse(ids)
		since := r.event(ids[29]).CreatedAt.Time
		got := collect(t, service.List(events.ListOptions{Since: since, SortOrder: api.SortOrderDescending}).PageSize(10).Prefetch(prefetch))
		assert.Equal(t, ids[:30], got)
		assert.LessOrEqual(t, len(r.asked()), 5*2+5*prefetch)
	}
}

// If the platform ignores the order, any page may contain a match.
func TestDescendingListReadsUnsortedGroupToItsEnd(t *testing.T) {
	t.Parallel()
	r, service := newRecord(t)
	r.ignores = true
	for i := range 40 {
		r.add(begins.Add(time.Duration(i)*time.Hour), events.TypeOrderPlaced, fmt.Sprint("evt_", i))
	}
	got := collect(t, service.List(events.ListOptions{
		Since: begins.Add(30 * time.Hour), Groups: []events.Group{events.GroupOrders}, SortOrder: api.SortOrderDescending,
	}).PageSize(10))
	assert.Len(t, got, 10)
}

func TestDescendingListDropsRepeatedEvents(t *testing.T) {
	t.Parallel()
	r, service := newRecord(t)
	ids := r.fill(100)
	slices.Reverse(ids)
	added := 0
	r.before = func(*http.Request) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		added++
		r.add(begins.Add(time.Duration(1000+added)*time.Hour), oneOfEach[added%5], fmt.Sprint("new_", added))
		return nil
	}
	got := collect(t, service.List(events.ListOptions{SortOrder: api.SortOrderDescending}).PageSize(4))
	old := slices.DeleteFunc(got, func(id string) bool { return strings.HasPrefix(id, "new_") })
	assert.Equal(t, ids, old)
}

func TestListKeepsEventOfEachIntegration(t *testing.T) {
	t.Parallel()
	r, service := newRecord(t)
	for _, integration := range []string{"int_1", "int_2"} {
		r.add(begins, events.TypeOrderPlaced, "evt_1")
		r.groups[events.GroupOrders][len(r.groups[events.GroupOrders])-1].IntegrationID = integration
	}
	got := resourcetest.Collect(t, service.List(events.ListOptions{}).PageSize(1).All(t.Context()))
	require.Len(t, got, 2)
	assert.NotEqual(t, got[0].IntegrationID, got[1].IntegrationID)
}

func TestListReadsGroupsThatMatch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options events.ListOptions
		want    []string
		asked   []string // groups
		kind    string
	}{
		"one type":                  {events.ListOptions{Types: []events.Type{events.TypeOrderPlaced}}, []string{"order"}, []string{"orders 1"}, "order.placed"},
		"one type twice":            {events.ListOptions{Types: []events.Type{events.TypeOrderPlaced, events.TypeOrderPlaced}}, []string{"order"}, []string{"orders 1"}, "order.placed"},
		"types of a group":          {events.ListOptions{Types: []events.Type{events.TypePatientCreated, events.TypePatientUpdated}}, []string{"created", "updated"}, []string{"patients 1"}, ""},
		"types of two groups":       {events.ListOptions{Types: []events.Type{events.TypePatientCreated, events.TypeOrderPlaced}}, []string{"created", "order"}, []string{"orders 1", "patients 1"}, "*"},
		"an unknown type":           {events.ListOptions{Types: []events.Type{"patient.merged", "patient.left"}}, []string{"merged"}, []string{"patients 1"}, ""},
		"a group":                   {events.ListOptions{Groups: []events.Group{events.GroupPatients}}, []string{"created", "updated", "merged"}, []string{"patients 1"}, ""},
		"a group and types":         {events.ListOptions{Groups: []events.Group{events.GroupPatients}, Types: []events.Type{events.TypePatientUpdated, events.TypeOrderPlaced}}, []string{"updated"}, []string{"patients 1"}, "patient.updated"},
		"a group without the types": {events.ListOptions{Groups: []events.Group{events.GroupPatients}, Types: []events.Type{events.TypeOrderPlaced}}, []string{}, nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, service := newRecord(t)
			r.add(begins, events.TypePatientCreated, "created")
			r.add(begins.Add(1), events.TypePatientUpdated, "updated")
			r.add(begins.Add(2), "patient.merged", "merged")
			r.add(begins.Add(3), events.TypeOrderPlaced, "order")
			list := service.List(test.options)
			assert.Equal(t, test.want, collect(t, list))
			assert.Equal(t, test.asked, r.asked())
			for _, request := range r.requests {
				if test.kind != "*" {
					assert.Equal(t, test.kind, request.URL.Query().Get("event_type"))
				}
			}
			assert.Equal(t, test.want[:min(1, len(test.want))], collect(t, list.Limit(1)))
		})
	}
}

func TestListReturnsLatestEvents(t *testing.T) {
	t.Parallel()
	r, service := newRecord(t)
	ids := r.fill(200)
	slices.Reverse(ids)
	page, err := service.List(events.ListOptions{SortOrder: api.SortOrderDescending}).Limit(20).Page(t.Context())
	require.NoError(t, err)
	assert.Equal(t, ids[:20], idsOf(page.Items))
	assert.Len(t, r.asked(), 5)
	for _, request := range r.requests {
		assert.Equal(t, "20", request.URL.Query().Get("page[size]"))
	}
}

// A limit counts only matching events.
func TestListLimitsMatchingEvents(t *testing.T) {
	t.Parallel()
	for _, options := range []events.ListOptions{
		{Since: begins.Add(time.Hour * 30), Groups: []events.Group{events.GroupPatients}},
		{Types: []events.Type{events.TypePatientUpdated, "patient.merged"}},
	} {
		r, service := newRecord(t)
		for i := range 60 {
			kind := events.TypePatientCreated
			if i >= 30 {
				kind = events.TypePatientUpdated
			}
			r.add(begins.Add(time.Duration(i)*time.Hour), kind, fmt.Sprint("evt_", i))
		}
		assert.Equal(t, []string{"evt_30", "evt_31", "evt_32"}, collect(t, service.List(options).Limit(3).PageSize(10)))
		assert.Equal(t, []string{"patients 1", "patients 2", "patients 3", "patients 4"}, r.asked())
	}
}

func TestEventWithoutTimeFollowsItsPredecessor(t *testing.T) {
	t.Parallel()
	r, service := newRecord(t)
	r.add(begins, events.TypePatientCreated, "old")
	r.add(time.Time{}, events.TypePatientUpdated, "unknown")
	r.add(begins.Add(2*time.Hour), events.TypePatientUpdated, "new")
	r.add(begins.Add(time.Hour), events.TypeOrderPlaced, "order")
	assert.Equal(t, []string{"old", "unknown", "order", "new"}, collect(t, service.List(events.ListOptions{})))
	assert.Equal(t, []string{"new", "unknown", "order", "old"}, collect(t, service.List(events.ListOptions{SortOrder: api.SortOrderDescending})))
}

// A consumer with enough events must cause no further request.
func TestListYieldsEventsBeforeItReadsMore(t *testing.T) {
	t.Parallel()
	r, service := newRecord(t)
	for i := range 40 {
		kind := events.TypePatientCreated
		if i%5 == 0 {
			kind = events.TypePatientUpdated
		}
		r.add(begins.Add(time.Duration(i)*time.Minute), kind, fmt.Sprint("evt_", i))
	}
	r.add(begins.Add(time.Hour), events.TypeOrderPlaced, "order")
	types := []events.Type{events.TypePatientUpdated, "patient.merged", events.TypeOrderPlaced}
	var got []string
	for e, err := range service.List(events.ListOptions{Types: types}).PageSize(10).All(t.Context()) {
		require.NoError(t, err)
		if got = append(got, e.ID); len(got) == 2 {
			break
		}
	}
	assert.Equal(t, []string{"evt_0", "evt_5"}, got)
	assert.Equal(t, []string{"orders 1", "patients 1"}, r.asked())
}

func TestListOfOneGroupStartsAtPage(t *testing.T) {
	t.Parallel()
	r, service := newRecord(t)
	for i := range 30 {
		r.add(begins.Add(time.Duration(i)*time.Hour), events.TypeOrderPlaced, fmt.Sprint("evt_", i))
	}
	list := service.List(events.ListOptions{Groups: []events.Group{events.GroupOrders}}).PageSize(10).StartAt(3)
	assert.Equal(t, []string{"evt_20", "evt_21"}, collect(t, list.Limit(2)))
	page, err := list.Page(t.Context())
	require.NoError(t, err)
	assert.Len(t, page.Items, 10)
	assert.Equal(t, 30, page.Meta.TotalCount)
}

func TestListRejectsArguments(t *testing.T) {
	t.Parallel()
	r, service := newRecord(t)
	for name, test := range map[string]struct {
		list *api.List[events.Event]
		want string
	}{
		"types": {service.List(events.ListOptions{Types: []events.Type{events.TypeOrderPlaced, "order", "marked.placed"}}),
			"dispensary: Types[1] must be a type of event, such as patient.updated, Types[2] must be a type of event, such as patient.updated"},
		"group":  {service.List(events.ListOptions{Groups: []events.Group{"order"}}), "dispensary: Groups[0] must be a group of events, such as patients"},
		"page":   {service.List(events.ListOptions{}).StartAt(2), "dispensary: page[number] must be 1 for several groups: set Since"},
		"size":   {service.List(events.ListOptions{}).PageSize(-1), "dispensary: events.list_clinic_keys: page[size] must not be negative"},
		"limit":  {service.List(events.ListOptions{}).Limit(-1), "dispensary: events.list_clinic_keys: Limit must not be negative"},
		"ahead":  {service.List(events.ListOptions{}).Prefetch(-1), "dispensary: events.list_clinic_keys: Prefetch must not be negative"},
		"number": {service.List(events.ListOptions{}).StartAt(-1), "dispensary: events.list_clinic_keys: page[number] must not be negative"},
	} {
		_, err := test.list.Page(t.Context())
		require.ErrorIs(t, err, api.ErrArgument, name)
		require.EqualError(t, err, test.want)
	}
	assert.Empty(t, r.asked())
}

func TestListEndsWithErrorOfGroup(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{0, 2} {
		r, service := newRecord(t)
		r.fill(20)
		r.before = func(request *http.Request) error {
			if strings.HasSuffix(request.URL.Path, "patients") && request.URL.Query().Get("page[number]") == "2" {
				return context.DeadlineExceeded
			}
			return nil
		}
		var got int
		var failed error
		for _, err := range service.List(events.ListOptions{}).PageSize(2).Prefetch(prefetch).All(t.Context()) {
			require.NoError(t, failed, "an error must end the list")
			if failed = err; err == nil {
				got++
			}
		}
		require.ErrorContains(t, failed, "events.list_patients")
		assert.Positive(t, got)
	}
}

func TestPrefetchReadsGroupsAtSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, service := newRecord(t)
		want := r.fill(50)
		r.before = func(*http.Request) error { time.Sleep(time.Second); return nil }
		for prefetch, takes := range map[int]time.Duration{0: 5 * time.Second, 2: time.Second} {
			start := time.Now()
			assert.Equal(t, want, collect(t, service.List(events.ListOptions{}).Prefetch(prefetch)))
			assert.Equal(t, takes, time.Since(start))
		}
	})
}

// Only the goroutine that reads the list calls OnDrift, so the function needs no lock.
func TestMergedListReportsDriftsOneByOne(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{0, 4} {
		synctest.Test(t, func(t *testing.T) {
			r, service := newRecord(t)
			since := begins.Add(1000 * time.Hour)
			for i := range 40 { // before since on its day, so the first page with a match is the last of several
				for _, kind := range oneOfEach {
					r.add(since.Add(-time.Duration(40-i)*time.Minute), kind, "")
				}
			}
			r.before = func(request *http.Request) error {
				time.Sleep(time.Second)
				r.mu.Lock()
				defer r.mu.Unlock()
				for _, kind := range oneOfEach {
					if kind.Group() == events.Group(path.Base(request.URL.Path)) {
						r.add(since.Add(time.Minute), kind, "")
					}
				}
				return nil
			}
			var running atomic.Bool
			reports := 0
			list := service.List(events.ListOptions{Since: since}).PageSize(4).Prefetch(prefetch).Limit(20).OnDrift(func(d api.Drift) {
				assert.True(t, running.CompareAndSwap(false, true), "another call runs")
				assert.NotEqual(t, d.Before, d.After)
				time.Sleep(time.Second)
				reports++
				running.Store(false)
			})
			for _, err := range list.All(t.Context()) {
				require.NoError(t, err)
			}
			assert.Greater(t, reports, 5)
		})
	}
}

// A synctest bubble fails if a goroutine outlives it.
func TestStoppedListLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			r, service := newRecord(t)
			r.fill(100)
			r.before = func(request *http.Request) error {
				select {
				case <-time.After(time.Minute):
				case <-request.Context().Done():
				}
				return request.Context().Err()
			}
			for range service.List(events.ListOptions{}).PageSize(5).Prefetch(prefetch).All(t.Context()) {
				break
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for _, err := range service.List(events.ListOptions{}).Prefetch(prefetch).All(ctx) {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		})
	}
}

// panicking is a token source that ends its caller's goroutine.
type panicking struct{ end func() }

func (p panicking) Token(context.Context) (api.AccessToken, error) {
	p.end()
	return api.AccessToken{}, errors.New("unreachable")
}

func TestPanicReachesReaderOfList(t *testing.T) {
	t.Parallel()
	platform := dispensarytest.New(t, dispensarytest.WithInMemory())
	for _, prefetch := range []int{0, 3} {
		client := platform.Client(model.User{}, dispensary.WithTokenSource(panicking{func() { panic("lost") }}))
		assert.PanicsWithValue(t, "lost", func() {
			for range client.Events.List(events.ListOptions{}).Prefetch(prefetch).All(t.Context()) {
			}
		})
	}
}

func TestGroupsHaveAllTypes(t *testing.T) {
	t.Parallel()
	b := start(t)
	made := b.happen(t)
	for _, group := range events.Groups() {
		var want []string
		for _, e := range made {
			if events.Type(e.Type).Group() == group {
				want = append(want, e.ID)
			}
		}
		require.NotEmpty(t, want, group)
		listed := resourcetest.Collect(t, b.List(events.ListOptions{Groups: []events.Group{group}}).PageSize(1).All(t.Context()))
		assert.Equal(t, want, idsOf(listed))
		assert.Nil(t, listed[0].Data, "a list must leave the data out")
		_, err := events.As[clinic.Patient](listed[0])
		require.Error(t, err)
	}
	all := resourcetest.Collect(t, b.List(events.ListOptions{Since: begins}).All(t.Context()))
	assert.Len(t, all, len(made))
	b.platform.Journal.CheckNoUnexpected(t)
	assert.Empty(t, events.Type("invoice.paid").Group())
}
