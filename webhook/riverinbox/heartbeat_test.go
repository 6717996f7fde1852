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
