package riverinbox

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process that resumes after too long without a heartbeat does not know what others have
// done since. Its timer may fire late.
func TestRenewAfterExpiryStartsNewLease(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := newAlive(t.Context(), 3*time.Second)
			before := a.current()
			time.Sleep(time.Second)
			a.renew(time.Now())
			require.NoError(t, before.Err())
			ctx, drop := a.hold(t.Context(), 1)
			defer drop()
			if stopped {
				a.timer.Stop()
			}
			time.Sleep(2 * time.Second)
			a.renew(time.Now())
			synctest.Wait()
			require.Error(t, ctx.Err())
			require.Error(t, before.Err())
			assert.NoError(t, a.current().Err())
			a.timer.Stop()
		})
	}
}

// In an outage of the database's disk, no process stores heartbeats, but all can read.
func TestProcessWithoutLeaseJudgesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAlive(t.Context(), 3*time.Second)
		defer a.timer.Stop()
		h := &heart{alive: a}
		now := []pulse{{"other", 7}}
		require.True(t, h.judges())
		for range 5 {
			h.others.dead(now, 3*time.Second)
			time.Sleep(500 * time.Millisecond)
		}
		assert.False(t, h.judges(), "the lease has ended")
		a.renew(time.Now())
		require.True(t, h.judges())
		time.Sleep(time.Second)
		dead, _ := h.others.dead(now, 3*time.Second)
		assert.Empty(t, dead, "the other process could not write either")
	})
}

// A process that was paused has looked at the others before the pause.
func TestPausedProcessLooksSeveralTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, now := others{}, []pulse{{"other", 7}}
		o.dead(now, time.Second)
		time.Sleep(time.Minute)
		for range 3 {
			dead, _ := o.dead(now, time.Second)
			require.Empty(t, dead)
		}
		dead, beats := o.dead(now, time.Second)
		assert.Equal(t, []string{"other"}, dead)
		assert.Equal(t, []int64{7}, beats)
		dead, _ = o.dead([]pulse{{"other", 8}}, time.Second)
		assert.Empty(t, dead, "a new beat")
	})
}
