package riverinbox

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process that gave no sign of life for too long, and gives one again, does not know what
// others did meanwhile. Its timer may be later than that.
func TestRenewedLeaseIsNotTheOldOne(t *testing.T) {
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
