package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
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
			assert.Equal(r, textsOf(want), textsOf(r.pages(inbox, c.filter, engine.Page{Limit: limit})), "%s, %d on a page", name, limit)
			reversed := r.pages(inbox, c.filter, engine.Page{Limit: limit, Descending: true})
			slices.Reverse(reversed)
			assert.Equal(r, textsOf(want), textsOf(reversed), "%s, %d on a page, descending", name, limit)
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

		"no reason":            {engine.Filter{NoReason: true}, 3},
		"no reason, but dead":  {engine.Filter{NoReason: true, States: dead.States}, 0},
		"reason and no reason": {engine.Filter{NoReason: true, Reason: "x"}, 0},

		"event ID":               {engine.Filter{EventID: "dies_1"}, 1},
		"event ID of a waiting":  {engine.Filter{EventID: "waits_1"}, 1},
		"event ID and state":     {engine.Filter{EventID: "waits_1", States: dead.States}, 0},
		"part of an event ID":    {engine.Filter{EventID: "dies_"}, 0},
		"event ID and slash":     {engine.Filter{EventID: "dies_1/in_1"}, 0},
		"event ID as a wildcard": {engine.Filter{EventID: "%"}, 0},

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

// statistics tests Stats and CheckWrite.
var statistics = map[string]func(*harness){
	"Counts":     counts,
	"CheckWrite": checkWrite,
}

func counts(r *harness) {
	gate, began := make(chan struct{}), make(chan string, 1)
	var replayed atomic.Bool
	inbox := r.open(func(ctx context.Context, e events.Event) error {
		switch {
		case e.ID == "runs":
			began <- e.ID
			return until(ctx, gate)
		case e.ID == "dies" && !replayed.Load():
			return webhook.Permanent(errDown)
		}
		return errDown
	}, slow)
	r.holds(inbox, engine.Stats{})

	first := patient("runs", "pa_1", 1)
	r.accept(inbox, first)
	receive(r, began)
	fails, dies := patient("fails", "pa_2", 2), patient("dies", "pa_3", 3)
	dies.ReceivedAt = dies.ReceivedAt.Add(-240 * time.Hour)
	r.accept(inbox, fails, dies)
	r.waitFor(webhook.ResultFailed, fails)
	r.waitFor(webhook.ResultDead, dies)
	r.holds(inbox, engine.Stats{Waiting: 1, Running: 1, Dead: 1, Oldest: first.ReceivedAt})

	close(gate)
	r.waitFor(webhook.ResultHandled, first)
	r.holds(inbox, engine.Stats{Waiting: 1, Dead: 1, Oldest: fails.ReceivedAt})
	replayed.Store(true)
	r.replay(inbox, dies)
	r.waitFor(webhook.ResultFailed, dies)
	r.holds(inbox, engine.Stats{Waiting: 2, Oldest: dies.ReceivedAt}) // the age survives a replay
}

// holds compares the counts of an engine. The oldest time may differ by Patience, because the
// clocks of machines differ.
func (r *harness) holds(inbox engine.Engine, want engine.Stats) {
	r.Helper()
	got, err := inbox.Stats(r.Context())
	require.NoError(r, err)
	assert.Equal(r, [3]int{want.Waiting, want.Running, want.Dead}, [3]int{got.Waiting, got.Running, got.Dead}, "waiting, running, dead")
	if want.Oldest.IsZero() {
		assert.Zero(r, got.Oldest)
	} else {
		assert.WithinDuration(r, want.Oldest, got.Oldest, r.storage.Patience)
	}
}

// checkWrite calls CheckWrite during accepts. It must succeed and change no event.
func checkWrite(r *harness) {
	all := numbered(20)
	for _, inbox := range r.openSeveral(fail) {
		accepted := make(chan struct{})
		go func() {
			defer close(accepted)
			r.accept(inbox, all...)
		}()
		for range 5 {
			assert.NoError(r, inbox.CheckWrite(r.Context()))
		}
		<-accepted
		r.waitFor(webhook.ResultDead, all...)
		require.NoError(r, inbox.CheckWrite(r.Context()))
		r.holds(inbox, engine.Stats{Dead: len(all)})
	}
}

// finished looks up handled, skipped, discarded, stored and unknown events. Most share an
// event ID, and the other IDs resemble it.
func finished(r *harness) {
	const id = "evt/%1 _é"
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	before := time.Now().Add(-time.Second)
	inbox := r.open(func(ctx context.Context, _ events.Event) error {
		switch name, _, _ := strings.Cut(webhook.HandlingFrom(ctx).Key.IntegrationID, " "); name {
		case "dies":
			return webhook.Permanent(errDown)
		case "fails":
			return errDown
		case "runs":
			return until(ctx, gate)
		}
		return nil
	}, slow)
	of := func(id string, e api.Environment, integrationID string) webhook.Delivery {
		d := integration(patient(id, "pa_"+id+integrationID, 1), integrationID)
		d.Key.Environment = e
		return d
	}
	handled := []webhook.Delivery{of(id, usSandbox, "handled/0 %"), of(id, api.USProduction, ""), of(id, caSandbox, "in_1")}
	gone := []webhook.Delivery{of(id, usSandbox, "dies 1"), of(id, api.CanadaProduction, "dies 1")}
	dead, fails, runs := of(id, usSandbox, "dies 2"), of(id, usSandbox, "fails"), of(id, usSandbox, "runs")
	others := []webhook.Delivery{of("evt", usSandbox, "%1 _é"), of(id+"1", usSandbox, "1"), of("EVT/%1 _é", usSandbox, "1"), of("evt/%1 xé", usSandbox, "1")}
	r.accept(inbox, runs, fails, dead)
	r.accept(inbox, slices.Concat(handled, gone, others)...)
	r.waitFor(webhook.ResultHandled, append(handled, others...)...)
	r.waitFor(webhook.ResultFailed, fails)
	r.waitFor(webhook.ResultDead, append(gone, dead)...)
	r.ends(inbox, id, before, len(handled), 0)
	r.discard(inbox, gone...)
	r.ends(inbox, id, before, len(handled), len(gone))
	for _, d := range others {
		r.ends(inbox, d.Key.EventID, before, 1, 0)
	}
	for _, unknown := range []string{"", "evt/%1 _", "%", "never"} {
		r.ends(inbox, unknown, before, 0, 0)
	}
	r.discard(inbox, dead)
	release()
	r.waitFor(webhook.ResultHandled, runs)
	r.ends(inbox, id, before, len(handled)+1, len(gone)+1)
}

// ends compares the numbers of handled and discarded events for an ID.
func (r *harness) ends(inbox engine.Engine, eventID string, from time.Time, handled, discarded int) {
	r.Helper()
	all, err := inbox.Finished(r.Context(), eventID)
	require.NoError(r, err)
	n := 0
	for _, f := range all {
		if f.Discarded {
			n++
		}
		if !f.At.IsZero() {
			assert.WithinRange(r, f.At, from, time.Now().Add(time.Second))
			assert.Equal(r, time.UTC, f.At.Location())
		}
	}
	assert.Equal(r, fmt.Sprint(handled, discarded), fmt.Sprint(len(all)-n, n), "handled and discarded of %q", eventID)
}
