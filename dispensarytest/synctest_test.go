package dispensarytest

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Close leaves nothing behind: the bubble would not end before a goroutine does,
// and a timer would still move its time.
func TestNothingOutlivesCloseInTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, err := Start(WithInMemory(), WithBehavior(DeliveryConditionsOff))
		require.NoError(t, err)
		activate(t, fake)
		require.NoError(t, fake.Webhooks.RegisterHandler(http.NotFoundHandler()))
		_, event, err := fake.Patients.Register(model.NewPatient{})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, fake.Webhooks.Deliveries()[0].Attempts, 1)
		require.NoError(t, fake.Close())
		_, waiting := fake.Clock().Next()
		assert.False(t, waiting, "no retry is due any more")
		require.ErrorContains(t, fake.Webhooks.WaitDelivered(t.Context(), event.ID), "the platform was closed")
		time.Sleep(10 * time.Hour)
		assert.Len(t, fake.Webhooks.Deliveries()[0].Attempts, 1)
	})
}
