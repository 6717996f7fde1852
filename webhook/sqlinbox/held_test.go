package sqlinbox_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/admintest"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// operated opens an inbox, again and again at the same place, for the pages of operators.
func operated(t testing.TB) func(webhook.Work) engine.Engine {
	path, keys := filepath.Join(t.TempDir(), "inbox.db"), receivertest.KeyRing(t)
	return func(work webhook.Work) engine.Engine {
		inbox, err := sqlinbox.Open(path, sqlinbox.Config{Work: work, Seal: keys})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, inbox.Close(context.Background())) })
		return inbox
	}
}

func TestDeadLettersAreReplayedOnceThroughPages(t *testing.T) {
	t.Parallel()
	admintest.ReplayedOnce(t, true, operated(t))
}
