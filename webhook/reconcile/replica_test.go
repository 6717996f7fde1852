package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// held returns a reconciler that waits in the middle of a run until the gate
// opens, and a channel that tells when it does.
func (s *fixture) held(t *testing.T, gate <-chan struct{}, inbox reconcile.Inbox) (r *reconcile.Reconciler, waiting chan struct{}) {
	t.Helper()
	waiting = make(chan struct{}, 1)
	return s.reconciler(t, func(c *reconcile.Config) {
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

// Of two replicas one works, however long it takes: its claim is extended.
func TestReconcilerRunsOnce(t *testing.T) {
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
			for _, other := range []*reconcile.Reconciler{r, s.reconciler(t, nil)} {
				report, err := other.Run(t.Context())
				require.ErrorIs(t, err, reconcile.ErrCheckpointHeld)
				require.ErrorContains(t, err, "reconcile: run failed: ")
				assert.Empty(t, report.Groups)
			}
			time.Sleep(reconcile.DefaultLease)
		}
		assert.Zero(t, s.platform.Journal().Len())
		close(gate)
		assert.Equal(t, keys, (<-done).Recovered)
		assert.Empty(t, s.reconcile(t, nil).Recovered)
		s.finish(t, keys...)
	})
}

// Reconcilers of other clinics have other names and do not wait.
func TestReconcilersWithOtherNames(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	gate := make(chan struct{})
	r, waiting := s.held(t, gate, s.inbox)
	done := make(chan error)
	go func() {
		_, err := r.Run(t.Context())
		done <- err
	}()
	<-waiting
	s.reconcile(t, func(c *reconcile.Config) { c.Name = "another clinic" })
	close(gate)
	require.NoError(t, <-done)
}

// A replica that was held up for too long stops: another may have taken over.
func TestReconcilerStopsWhenItsClaimIsLost(t *testing.T) {
	t.Parallel()
	down := errors.New("the storage is down")
	for name, failure := range map[string]error{"taken": reconcile.ErrCheckpointHeld, "cannot be extended": down} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				start := time.Now()
				lost := hooked{s.inbox, func(method string, _ webhook.Delivery) error {
					if method == "SaveCheckpoint" && time.Since(start) >= 3*time.Minute {
						return failure
					}
					return nil
				}}
				r, _ := s.held(t, nil, lost)
				_, err := r.Run(t.Context())
				require.ErrorIs(t, err, failure)
				require.ErrorIs(t, err, reconcile.ErrCheckpointHeld)
				assert.GreaterOrEqual(t, time.Since(start), 3*time.Minute)
				assert.LessOrEqual(t, time.Since(start), 4*time.Minute+time.Second)
			})
		})
	}
}

// A moment in which the storage is down is survived.
func TestReconcilerSurvivesAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		start := time.Now()
		moment := hooked{s.inbox, func(method string, _ webhook.Delivery) error {
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

// A name that something else uses is not overwritten.
func TestReconcilerDoesNotOverwriteWhatItCannotRead(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	ctx := t.Context()
	_, err := s.inbox.ClaimCheckpoint(ctx, "theirs", "they", time.Hour)
	require.NoError(t, err)
	require.NoError(t, s.inbox.SaveCheckpoint(ctx, "theirs", "they", []byte("not ours"), time.Hour))
	require.NoError(t, s.inbox.ReleaseCheckpoint(ctx, "theirs", "they"))
	_, err = s.reconciler(t, func(c *reconcile.Config) { c.Name = "theirs" }).Run(ctx)
	require.ErrorContains(t, err, "another program uses its name")
	state, err := s.inbox.ClaimCheckpoint(ctx, "theirs", "they", time.Hour)
	require.NoError(t, err)
	assert.Equal(t, "not ours", string(state))
}
