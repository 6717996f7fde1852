package webhook_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// Each wait is half of what it may be at least; all of them outlast a night.
func TestRetryPolicyWaits(t *testing.T) {
	t.Parallel()
	w, err := webhook.Work{Handle: succeed}.WithDefaults()
	require.NoError(t, err)
	total, most := time.Duration(0), time.Second
	for attempt := 1; attempt < w.Retry.MaxAttempts; attempt++ {
		wait := w.Retry.Wait(attempt)
		assert.LessOrEqual(t, wait, most)
		assert.GreaterOrEqual(t, wait, most/2)
		total, most = total+wait, min(2*most, time.Hour)
	}
	assert.Greater(t, total, 6*time.Hour)
	assert.Less(t, total, 14*time.Hour)
}

func TestPermanent(t *testing.T) {
	t.Parallel()
	require.NoError(t, webhook.Permanent(nil))
	assert.False(t, webhook.IsPermanent(nil))
	assert.False(t, webhook.IsPermanent(errDown))
	err := webhook.Permanent(errDown)
	require.ErrorIs(t, err, errDown)
	require.EqualError(t, err, errDown.Error())
	assert.True(t, webhook.IsPermanent(fmt.Errorf("x: %w", err)))
	assert.True(t, webhook.IsPermanent(events.ErrNoEvent))
	assert.Equal(t, "permanent: unnamed error: see webhook.WithReason", webhook.Attempt{Err: err}.Reason())
}
