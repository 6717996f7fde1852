package riverinbox_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/admintest"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// operated opens an inbox, again and again at the same place, for the pages of operators.
func operated(t testing.TB) func(webhook.Work) engine.Engine {
	d, keys := newDatabase(t), receivertest.KeyRing(t)
	return func(work webhook.Work) engine.Engine {
		inbox, err := riverinbox.Open(t.Context(), d.pool(t), riverinbox.Config{
			Work: work, Seal: keys, Tables: d.tables(), River: quick, Lease: testLease,
		})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, inbox.Close(context.Background())) })
		return inbox
	}
}

func TestDeadLettersAreReplayedOnceThroughPages(t *testing.T) {
	t.Parallel()
	admintest.ReplayedOnce(t, true, operated(t))
}

// BenchmarkAdminPages measures what an operator waits for after a bad night.
func BenchmarkAdminPages(b *testing.B) { admintest.BenchmarkPages(b, operated(b)) }
