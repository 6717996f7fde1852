package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// observedRun is a run of a loop.
type observedRun struct {
	at     time.Time
	report reconcile.Report
	err    error
}

// runs collects runs.
type runs struct {
	mu   sync.Mutex
	made []observedRun
}

func (r *runs) all() []observedRun {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.made)
}

// observed returns a reconciler that records its runs in r.
func (s *fixture) observed(t *testing.T, r *runs) *reconciler {
	t.Helper()
	return s.reconciler(t, func(c *config) {
		c.Observer.RunEnd = func(_ context.Context, report reconcile.Report, err error) {
			if report.Skipped {
				return
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.made = append(r.made, observedRun{time.Now(), report, err})
		}
	})
}

// loop starts a loop that ends with the test.
func loop(t *testing.T, r *reconciler, interval time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Loop(ctx, interval) }()
	t.Cleanup(func() {
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
	})
}

// beat is the interval of the loops, short enough for the lifetime of a token.
const beat = 10 * time.Minute

func TestLoopRetriesFailuresSooner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t, dispensarytest.WithClock(nil))
		s.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: "events.list_orders", Times: 5})
		start := time.Now()
		var kept runs
		loop(t, s.observed(t, &kept), beat)
		time.Sleep(3 * beat)
		runs := kept.all()
		var at []time.Duration
		for i, run := range runs[:6] {
			at = append(at, run.at.Sub(start))
			assert.Equal(t, i < 5, run.err != nil)
			assert.Equal(t, i < 5, run.report.Completed.IsZero())
		}
		assert.Equal(t, []time.Duration{0, time.Minute, 3 * time.Minute, 7 * time.Minute, 15 * time.Minute}, at[:5])
		assert.InDelta(t, 15*time.Minute+beat, at[5], float64(beat/10), "waits at most the interval")
	})
}

// A replica with a fast clock must not prevent the others from working.
func TestReplicasTolerateFastClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t, dispensarytest.WithClock(nil))
		var kept runs
		loop(t, s.observed(t, &kept), beat)
		time.Sleep(beat / 2) // two runs at the same time would compete for the checkpoint
		for range 9 {
			time.Sleep(beat)
			s.reconcile(t, func(c *config) { c.Now = func() time.Time { return time.Now().Add(24 * time.Hour) } })
		}
		assert.GreaterOrEqual(t, len(kept.all()), 8)
	})
}

// held returns a reconciler that waits in the middle of a run until gate is closed, and a
// channel that signals the start of the wait.
func (s *fixture) held(t *testing.T, gate <-chan struct{}, inbox reconcile.Inbox) (r *reconciler, waiting chan struct{}) {
	t.Helper()
	waiting = make(chan struct{}, 1)
	return s.reconciler(t, func(c *config) {
		c.Inbox = inbox
		c.Integrations = func(ctx context.Context) ([]string, error) {
			waiting <- struct{}{}
			select {
			case <-gate:
				return s.integrations, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}), waiting
}

// Only one of two replicas must work, because the claim is extended until the run ends.
func TestClaimAllowsOneRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newLossyFixture(t)
		keys := s.happen(t, 5)
		gate, done := make(chan struct{}), make(chan reconcile.Report)
		r, waiting := s.held(t, gate, s.inbox)
		go func() {
			report, err := r.Run(t.Context())
			assert.NoError(t, err)
			done <- report
		}()
		<-waiting
		for range 20 {
			for _, other := range []*reconciler{r, s.reconciler(t, nil)} {
				report, err := other.Run(t.Context())
				require.ErrorIs(t, err, engine.ErrCheckpointHeld)
				require.ErrorContains(t, err, "reconcile: run failed: ")
				assert.Empty(t, report.Groups)
			}
			time.Sleep(leaseTTL)
		}
		assert.Empty(t, s.platform.Journal.Requests())
		close(gate)
		assert.Equal(t, keys, (<-done).Recovered)
		assert.Empty(t, s.reconcile(t, nil).Recovered)
		s.finish(t, keys...)
	})
}

// A replica must stop after a long delay, because another one may have taken over.
func TestLostClaimEndsRun(t *testing.T) {
	t.Parallel()
	down := errors.New("the storage is down")
	for name, failure := range map[string]error{"taken": engine.ErrCheckpointHeld, "cannot be extended": down} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				start := time.Now()
				lost := hooked{s.inbox, func(_ context.Context, method string, _ webhook.Delivery) error {
					if method == "SaveCheckpoint" && time.Since(start) >= 3*time.Minute {
						return failure
					}
					return nil
				}}
				r, _ := s.held(t, nil, lost)
				_, err := r.Run(t.Context())
				require.ErrorIs(t, err, failure)
				require.ErrorIs(t, err, engine.ErrCheckpointHeld)
				assert.GreaterOrEqual(t, time.Since(start), 3*time.Minute)
				assert.LessOrEqual(t, time.Since(start), 4*time.Minute+time.Second)
			})
		})
	}
}

// A run must survive a short outage of the storage.
func TestRunSurvivesShortStorageOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		start := time.Now()
		moment := hooked{s.inbox, func(_ context.Context, method string, _ webhook.Delivery) error {
			if since := time.Since(start); method == "SaveCheckpoint" && since > time.Minute && since < 90*time.Second {
				return errors.New("the storage is down")
			}
			return nil
		}}
		gate := make(chan struct{})
		r, _ := s.held(t, gate, moment)
		time.AfterFunc(5*time.Minute, func() { close(gate) })
		_, err := r.Run(t.Context())
		require.NoError(t, err)
	})
}

// A checkpoint of another program must not be overwritten.
func TestRunKeepsForeignCheckpoint(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	ctx := t.Context()
	name := "us/sandbox/" + s.clinic
	_, err := s.inbox.ClaimCheckpoint(ctx, name, "they", time.Hour)
	require.NoError(t, err)
	require.NoError(t, s.inbox.SaveCheckpoint(ctx, name, "they", []byte("not ours"), time.Hour))
	require.NoError(t, s.inbox.ReleaseCheckpoint(ctx, name, "they"))
	_, err = s.reconciler(t, nil).Run(ctx)
	require.ErrorContains(t, err, "another program uses its name")
	state, err := s.inbox.ClaimCheckpoint(ctx, name, "they", time.Hour)
	require.NoError(t, err)
	assert.Equal(t, "not ours", string(state))
}

// A triggered run that failed must be repeated, even soon after the last run.
func TestLoopRepeatsFailedTrigger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newLossyFixture(t, dispensarytest.WithClock(nil))
		var kept runs
		r := s.observed(t, &kept)
		loop(t, r, time.Hour)
		require.Len(t, kept.all(), 1)

		time.Sleep(time.Minute)
		_, missed, err := s.platform.Orders.Place(s.platform.Patients.All()[0].ID, model.OrderCreate{})
		require.NoError(t, err)
		s.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: "events.list_orders", Times: 1})
		r.Trigger()
		runs := kept.all()
		require.Len(t, runs, 2)
		require.Error(t, runs[1].err)
		time.Sleep(time.Minute)
		runs = kept.all()
		require.Len(t, runs, 3)
		assert.Equal(t, s.keys(missed), runs[2].report.Recovered)
	})
}
