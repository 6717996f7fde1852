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
)

// holding tests what is listed, counted and changed of what an engine holds.
var holding = map[string]func(*harness){
	"Opened":    opened,
	"Filtered":  filtered,
	"Bulk":      bulk,
	"Together":  together,
	"Unbounded": unbounded,
}

func opened(r *harness) {
	gate := make(chan struct{})
	inbox := r.open(func(ctx context.Context, _ events.Event) error { return until(ctx, gate) })
	waits := patient("waits", "pa_1", 1)
	r.accept(inbox, waits)
	e, err := inbox.Open(r.Context(), waits.Key)
	require.NoError(r, err)
	assert.Equal(r, string(waits.Body), string(e.Body))
	require.NoError(r, e.Err)
	close(gate)
	r.waitFor(webhook.ResultHandled, waits)
	for _, d := range []webhook.Delivery{waits, patient("unknown", "pa_1", 1), integration(waits, "in_2")} {
		e, err := inbox.Open(r.Context(), d.Key)
		require.ErrorIs(r, err, engine.ErrNotHeld)
		assert.Empty(r, e.Body)
	}
}

// filtered holds that every filter matches what [engine.Filter.Matches] says, in lists,
// page by page, and in counts.
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
			return errDown
		}
		begun <- struct{}{}
		return until(ctx, gate)
	}, func(w *webhook.Work) { w.Workers, w.Retry.BackOff, w.Retry.MaxBackOff = 1, time.Hour, time.Hour })
	for n, id := range []string{"dies_1", "dies_2", "late_1", "late_2", "dies_3", "fails_1", "fails_2", "runs", "waits_1", "waits_2"} {
		d := patient(id, "pa_"+id, n)
		d.ReceivedAt = d.ReceivedAt.Add(-time.Duration(n) * time.Hour)
		d.ClinicID = fmt.Sprint("cl_", n%3)
		if n%2 == 0 {
			d.Type = "robot.built"
		}
		r.accept(inbox, d)
		switch id[:4] {
		case "dies", "late":
			r.waitFor(webhook.ResultDead, d)
		case "fail":
			r.waitFor(webhook.ResultFailed, d)
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
	hours := func(n int) time.Time { return time.Now().Add(-time.Duration(n)*time.Hour + 30*time.Minute) }
	for name, c := range map[string]struct {
		filter engine.Filter
		want   int
	}{
		"everything":       {engine.Filter{}, 10},
		"dead":             {dead, 5},
		"waiting":          {engine.Filter{States: []engine.State{engine.StateWaiting}}, 4},
		"running":          {engine.Filter{States: []engine.State{engine.StateRunning}}, 1},
		"not dead":         {engine.Filter{States: []engine.State{engine.StateWaiting, engine.StateRunning}}, 5},
		"no state":         {engine.Filter{States: []engine.State{"none"}}, 0},
		"a type":           {engine.Filter{Type: "robot.built"}, 5},
		"dead of a type":   {engine.Filter{States: dead.States, Type: "robot.built"}, 3},
		"a clinic":         {engine.Filter{ClinicID: "cl_1"}, 3},
		"another case":     {engine.Filter{ClinicID: "CL_1"}, 0},
		"a reason":         {engine.Filter{Reason: "permanent: unnamed error: see webhook.WithReason"}, 3},
		"a time-out":       {engine.Filter{Reason: "permanent: context deadline exceeded"}, 2},
		"failed":           {engine.Filter{Reason: "unnamed error: see webhook.WithReason"}, 2},
		"the last hours":   {engine.Filter{ReceivedFrom: hours(3)}, 3},
		"long ago":         {engine.Filter{ReceivedBefore: hours(3)}, 7},
		"in between":       {engine.Filter{ReceivedFrom: hours(6), ReceivedBefore: hours(3)}, 3},
		"until the third":  {engine.Filter{Until: all[2].Position}, 3},
		"keys":             {engine.Filter{Keys: []webhook.Key{all[1].Key, all[8].Key, {EventID: "unknown"}}}, 2},
		"no key":           {engine.Filter{Keys: []webhook.Key{}}, 0},
		"a key, not dead":  {engine.Filter{Keys: []webhook.Key{all[0].Key}, States: []engine.State{engine.StateWaiting}}, 0},
		"several together": {engine.Filter{States: dead.States, Type: "robot.built", ClinicID: "cl_2", Reason: "permanent: context deadline exceeded"}, 1},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(e engine.Event) bool { return !c.filter.Matches(e) })
		require.Len(r, want, c.want, name)
		for _, limit := range []int{1, 3, 100} {
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

// pages lists page by page.
func (r *harness) pages(inbox engine.Engine, f engine.Filter, limit int) (all []engine.Event) {
	r.Helper()
	for after := (engine.Position{}); ; {
		page, err := inbox.List(r.Context(), f, after, limit)
		require.NoError(r, err)
		all = append(all, page...)
		if len(page) < limit {
			return all
		}
		text, err := page[limit-1].Position.MarshalText()
		require.NoError(r, err)
		require.NoError(r, after.UnmarshalText(text))
	}
}

func textsOf(all []engine.Event) (keys []string) {
	for _, e := range all {
		keys = append(keys, e.Key.String()+" "+string(e.State)+" "+e.Reason)
	}
	return keys
}

// counts holds that the first events that a filter matches are counted as they are.
func (r *harness) counts(inbox engine.Engine, f engine.Filter, most int, of []engine.Event) {
	r.Helper()
	var want engine.Counts
	for _, e := range of {
		want.Add(e.Type, e.ClinicID, e.Reason, 1, e.ReceivedAt)
		want.Until = e.Position
	}
	got, err := inbox.Count(r.Context(), f, most)
	require.NoError(r, err)
	if len(of) > 0 && of[len(of)-1].State == engine.StateRunning {
		want.Until = got.Until // the engine's own, which moves while the event is handled
	}
	assert.Equal(r, want, got, "%d of %d", most, len(of))
}

// bulk replays some of many dead letters by a filter, up to a number, and is interrupted
// again and again. Each is handled once more, also where it dies again.
func bulk(r *harness) {
	const others, matching, most = 30, 320, 270
	var repaired atomic.Bool
	inbox := r.open(func(_ context.Context, e events.Event) error {
		if repaired.Load() && !strings.HasSuffix(e.ID, "7") {
			return nil
		}
		return webhook.Permanent(errDown)
	})
	all := numbered(others + matching)
	for n := range all[:others] {
		all[n].ClinicID = "cl_other"
	}
	r.accept(inbox, all...)
	r.waitFor(webhook.ResultDead, all...)
	f := engine.Filter{ClinicID: "cl_1"}
	counts, err := inbox.Count(r.Context(), f, most)
	require.NoError(r, err)
	require.Equal(r, most, counts.Total)
	f.Until = counts.Until
	selected := map[webhook.Key]bool{}
	for _, e := range r.pages(inbox, f, 100) {
		selected[e.Key] = true
	}
	require.Len(r, selected, most)

	repaired.Store(true)
	total, interrupted := 0, 0
	for looks := int32(1); ; looks++ {
		n, err := inbox.Replay(newEndsAfter(r.Context(), looks), f)
		total += n
		require.LessOrEqual(r, total, most, "what has died again was replayed again")
		if err == nil {
			break
		}
		require.ErrorIs(r, err, context.Canceled)
		interrupted++
	}
	assert.Equal(r, most, total)
	assert.Positive(r, interrupted)
	r.wait("another attempt of each", func(attempts []webhook.Attempt) bool { return len(attempts) >= len(all)+most })
	n, err := inbox.Replay(r.Context(), f)
	require.NoError(r, err)
	assert.Zero(r, n, "what has died again is not replayed again")
	stats, err := inbox.Stats(r.Context())
	require.NoError(r, err)
	diedAgain := 0
	for _, d := range all {
		want := []webhook.Result{webhook.ResultDead}
		if selected[d.Key] && strings.HasSuffix(d.Key.EventID, "7") {
			want = append(want, webhook.ResultDead)
			diedAgain++
		} else if selected[d.Key] {
			want = append(want, webhook.ResultHandled)
		}
		assert.Equal(r, want, r.results(d), "%s", d)
	}
	assert.Equal(r, len(all)-most+diedAgain, stats.Dead)
	n, err = inbox.Discard(r.Context(), f)
	require.NoError(r, err)
	assert.Zero(r, n)
}

// endsAfter is a context that ends when it has been looked at so often.
type endsAfter struct {
	context.Context
	cancel context.CancelFunc
	looks  atomic.Int32
}

func newEndsAfter(parent context.Context, looks int32) *endsAfter {
	c := &endsAfter{}
	c.Context, c.cancel = context.WithCancel(parent)
	c.looks.Store(looks)
	return c
}

// Err ends the context in time.
func (c *endsAfter) Err() error {
	if c.looks.Add(-1) < 0 {
		c.cancel()
	}
	return c.Context.Err()
}

// together replays and discards the same dead letters from several sides at once.
func together(r *harness) {
	var repaired atomic.Bool
	handle := func(context.Context, events.Event) error {
		if repaired.Load() {
			return nil
		}
		return webhook.Permanent(errDown)
	}
	engines := []engine.Engine{r.open(handle)}
	if r.storage.Shared {
		engines = append(engines, r.open(handle), r.open(handle))
	}
	all := numbered(250)
	r.accept(engines[0], all...)
	r.waitFor(webhook.ResultDead, all...)
	counts, err := engines[0].Count(r.Context(), dead, 0)
	require.NoError(r, err)
	repaired.Store(true)
	var replays, discards atomic.Int64
	var group sync.WaitGroup
	for n := range 6 {
		group.Go(func() {
			change, total := engines[n%len(engines)].Replay, &replays
			if n >= 4 {
				change, total = engines[n%len(engines)].Discard, &discards
			}
			n, err := change(context.Background(), engine.Filter{Until: counts.Until})
			assert.NoError(r, err)
			total.Add(int64(n))
		})
	}
	group.Wait()
	assert.EqualValues(r, len(all), replays.Load()+discards.Load())
	r.wait("the replayed", func(attempts []webhook.Attempt) bool { return len(attempts) >= len(all)+int(replays.Load()) })
	require.Empty(r, r.deadLetters(engines[0]))
	handled := 0
	for _, d := range all {
		results := r.results(d)
		assert.LessOrEqual(r, len(results), 2, "%s", d)
		handled += len(results) - 1
	}
	assert.EqualValues(r, replays.Load(), handled)
}

// unbounded holds that a filter which does not say where it ends changes nothing.
func unbounded(r *harness) {
	inbox := r.open(giveUp)
	d := patient("evt_1", "pa_1", 1)
	die(r, inbox, d)
	for _, change := range []func(context.Context, engine.Filter) (int, error){inbox.Replay, inbox.Discard} {
		n, err := change(r.Context(), engine.Filter{ClinicID: "cl_1"})
		var refused *api.ArgumentError
		require.ErrorAs(r, err, &refused)
		assert.Contains(r, refused.Field, "Until")
		assert.Zero(r, n)
		n, err = change(r.Context(), engine.Filter{Keys: []webhook.Key{}})
		require.NoError(r, err)
		assert.Zero(r, n, "no key is no dead letter")
	}
	require.Len(r, r.deadLetters(inbox), 1)
}
