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
			ctx, drop, ok := a.hold(t.Context(), try{1, 1})
			require.True(t, ok)
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

// An attempt may begin while its job is released.
func TestAbandonedAttemptGetsNoHandler(t *testing.T) {
	t.Parallel()
	a := newAlive(t.Context(), time.Minute)
	defer a.timer.Stop()
	late, held, next := try{1, 1}, try{2, 1}, try{1, 2}
	_, drop, ok := a.hold(t.Context(), held)
	require.True(t, ok)
	defer drop()
	assert.Equal(t, []try{late}, a.abandon([]try{late, held}))
	_, _, ok = a.hold(t.Context(), late)
	assert.False(t, ok)
	_, drop, ok = a.hold(t.Context(), next)
	require.True(t, ok)
	defer drop()
	assert.Empty(t, a.abandon(nil))
	_, drop, ok = a.hold(t.Context(), late) // a replayed event has the same number again
	require.True(t, ok)
	drop()
}
