package enginetest_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/internal/testkit/enginetest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// TestMemoryInbox holds package memoryinbox to what it claims.
func TestMemoryInbox(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(*testing.T) enginetest.Storage {
		return enginetest.Storage{Ordered: true, Open: openMemory}
	})
}

func openMemory(work webhook.Work) (engine.Engine, error) {
	return memoryinbox.New(memoryinbox.Config{Work: work})
}
