package inboxkit_test

import (
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAppendFailureKeepsLastOnes(t *testing.T) {
	t.Parallel()
	kept := inboxkit.AppendFailure(nil, webhook.Attempt{Number: 1, Err: assert.AnError}, now)
	one := kept
	for n := 2; n <= inboxkit.KeptFailures+1; n++ {
		inboxkit.AppendFailure(kept, webhook.Attempt{}, now) // shares nothing with the next one
		kept = inboxkit.AppendFailure(kept, webhook.Attempt{Number: n, Err: webhook.ErrAbandoned, Duration: time.Second}, now)
	}
	require.Len(t, kept, inboxkit.KeptFailures)
	for n, f := range kept {
		assert.Equal(t, engine.Failure{Attempt: n + 2, At: now, Duration: time.Second, Reason: webhook.ErrAbandoned.Error()}, f)
	}
	assert.Equal(t, 1, one[0].Attempt)
}
