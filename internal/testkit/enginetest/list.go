package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// listing tests lists and counts.
var listing = map[string]func(*harness){
	"Opened":   opened,
	"Filtered": filtered,
	"Finished": finished,
}

// opened opens waiting, running, handled and unknown events. Replay, Discard and HandleNow
// must not change any of them.
func opened(r *harness) {
	gate, begun := make(chan struct{}), make(chan struct{}, 2)
	inbox := r.open(func(ctx context.Context, _ events.Event) error {
		begun <- struct{}{}
		return until(ctx, gate)
	}, func(w *webhook.Work) { w.Workers = 1 })
	all := numbered(2)
	r.accept(inbox, all...)
	receive(r, begun)
	for _, d := range all {
		e, err := inbox.Open(r.Context(), d.Key)
		require.NoError(r, err)
		assert.Equal(r, string(d.Body), string(e.Body))
		require.NoError(r, e.Err)
	}
	others := []webhook.Delivery{patient("unknown", "pa_1", 1), integration(all[0], "in_2")}
	r.unchanged(inbox, append(others, all...)...)
	close(gate)
	r.waitFor(webhook.ResultHandled, all...)
	for _, d := range append(others, all...) {
		e, err := inbox.Open(r.Context(), d.Key)
		require.ErrorIs(r, err, engine.ErrNotStored)
		assert.Empty(r, e.Body)
	}
	r.unchanged(inbox, all...)
	for _, d := range all {
		assert.Len(r, r.of(d), 1)
	}
}

// filtered compares lists and counts with [engine.Filter.Matches].
func filtered(r *harness) {
	gate, begun := make(chan struct{}), make(chan struct{}, 2)
	defer close(gate)
	inbox := r.open(func(ctx context.Context, e events.Event) error {
		switch {
		case strings.HasPrefix(e.ID, "dies"):
			return webhook.Permanent(errDown)
		case strings.HasPrefix(e.ID, "late"):
			return webhook.Permanent(context.DeadlineExceeded)
		case strings.HasPrefix(e.ID, "fails"):
			return &api.Error{Operation: "orders.get", StatusCode: 503, RequestID: `<"\` + e.ID}
		}
		begun <- struct{}{}
		return until(ctx, gate)
	}, slow, func(w *webhook.Work) { w.Workers = 1 })
	for n, id := range []string{"dies_1", "dies_2", "late_1", "late_2", "dies_3", "fails_1", "fails_2", "runs", "waits_1", "waits_2"} {
		d := patient(id, "pa_"+id, n)
		d.ReceivedAt = d.ReceivedAt.Add(-time.Duration(n) * time.Hour)
		d.ClinicID = fmt.Sprint("cl_", n%4%3) // dies_1 and dies_3 are in one group
		if n%2 == 0 {
			d.Type = "robot.built"
		}
		r.accept(inbox, d)
		switch id[:4] {
		case "dies", "late":
			r.waitFor(webhook.ResultDead, d)
		case "fail":
			r.waitFor(webhook.ResultFailed, d)
			r.failures(inbox, d, 1)
		case "runs":
			receive(r, begun)
		}
	}
	var all []engine.Event
	for e, err := range engine.All(r.Context(), inbox, engine.Filter{}) {
		require.NoError(r, err)
		all = append(all, e)
	}
	require.Len(r, all, 10)
	assert.True(r, slices.IsSortedFunc(all, func(a, b engine.Event) int { return a.Position.Compare(b.Position) }))
	for name, c := range filters(all) {
		want := slices.DeleteFunc(slices.Clone(all), func(e engine.Event) bool { return !c.filter.Matches(e) })
		require.Len(r, want, c.want, name)
		for _, limit := range []int{3, 100} {
			assert.Equal(r, textsOf(want), textsOf(r.pages(inbox, c.filter, limit)), "%s, %d on a page", name, limit)
		}
		for _, most := range []int{0, 2, 100} {
			some := want
			if most > 0 {
				some = want[:min(most, len(want))]
			}
			r.counts(inbox, c.filter, most, some)
		}
	}
}

// selected is a filter and the number of matching events out of ten.
type selected struct {
	filter engine.Filter
	want   int
}

// filters returns the filters of the test by name. The first five of all events are dead
// letters.
func filters(all []engine.Event) map[string]selected {
	hours := func(n int) time.Time { return time.Now().Add(-time.Duration(n)*time.Hour + 30*time.Minute) }
	died := func(n int) time.Time { return all[n].Position.At }
	return map[string]selected{
		"everything":       {engine.Filter{}, 10},
		"dead":             {dead, 5},
		"running":          {engine.Filter{States: []engine.State{engine.StateRunning}}, 1},
		"not dead":         {engine.Filter{States: []engine.State{engine.StateWaiting, engine.StateRunning}}, 5},
		"no state":         {engine.Filter{States: []engine.State{"none"}}, 0},
		"a type":           {engine.Filter{Type: "robot.built"}, 5},
		"a clinic":         {engine.Filter{ClinicID: "cl_1"}, 3},
		"another case":     {engine.Filter{ClinicID: "CL_1"}, 0},
		"a reason":         {engine.Filter{Reason: "permanent: unnamed error: see webhook.WithReason"}, 3},
		"in between":       {engine.Filter{ReceivedFrom: hours(6), ReceivedBefore: hours(3)}, 3},
		"until the third":  {engine.Filter{Until: all[2].Position}, 3},
		"keys":             {engine.Filter{Keys: []webhook.Key{all[1].Key, all[8].Key, {EventID: "unknown"}}}, 2},
		"no key":           {engine.Filter{Keys: []webhook.Key{}}, 0},
		"a key, not dead":  {engine.Filter{Keys: []webhook.Key{all[0].Key}, States: []engine.State{engine.StateWaiting}}, 0},
		"several together": {engine.Filter{States: dead.States, Type: "robot.built", ClinicID: "cl_2", Reason: "permanent: context deadline exceeded"}, 1},

		"ID in keys":           {engine.Filter{ID: "dies_"}, 3},
		"ID in all keys":       {engine.Filter{ID: "/in_1"}, 10},
		"ID in request IDs":    {engine.Filter{ID: `<"\fails`}, 2},
		"ID in a request ID":   {engine.Filter{ID: `\fails_2`}, 1},
		"ID in another case":   {engine.Filter{ID: "DIES_"}, 0},
		"ID with wildcards":    {engine.Filter{ID: "s%_"}, 0},
		"ID of stored failure": {engine.Filter{ID: "request"}, 0},
		"ID with a line break": {engine.Filter{ID: "\n"}, 0},
		"ID and a state":       {engine.Filter{ID: `\fails`, States: dead.States}, 0},

		"given up":              {engine.Filter{GivenUpFrom: epoch}, 5},
		"given up later":        {engine.Filter{GivenUpFrom: died(2)}, 3},
		"given up before":       {engine.Filter{GivenUpBefore: died(2)}, 2},
		"given up in between":   {engine.Filter{GivenUpFrom: died(1), GivenUpBefore: died(3)}, 2},
		"given up, but waiting": {engine.Filter{GivenUpFrom: epoch, States: []engine.State{engine.StateWaiting}}, 0},
	}
}

func textsOf(all []engine.Event) (keys []string) {
	for _, e := range all {
		keys = append(keys, e.Key.String()+" "+string(e.State)+" "+e.Reason)
	}
	return keys
}

// counts requires that Count returns the counts of the events in of, the first ones that match
// f.
func (r *harness) counts(inbox engine.Engine, f engine.Filter, most int, of []engine.Event) {
	r.Helper()
	var want engine.Counts
	for _, e := range of {
		at := e.Position.At
		inboxkit.Group{Type: e.Type, ClinicID: e.ClinicID, Reason: e.Reason, Events: 1, Oldest: e.ReceivedAt, First: at, Last: at}.AddTo(&want)
		want.Until = e.Position
	}
	got, err := inbox.Count(r.Context(), f, most)
	require.NoError(r, err)
	for n, e := range of {
		if e.State != engine.StateRunning {
			continue
		}
		// The engine chooses the position of a running event, and may change it.
		cause := want.Causes[e.Reason]
		cause.First, cause.Last = got.Causes[e.Reason].First, got.Causes[e.Reason].Last
		if want.Causes[e.Reason] = cause; n == len(of)-1 {
			want.Until = got.Until
		}
	}
	assert.Equal(r, want, got, "%d of %d", most, len(of))
}
