package inboxtest_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/inboxtest"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// TestMemoryInbox holds package memoryinbox to what it claims.
func TestMemoryInbox(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, func(*testing.T) inboxtest.Storage {
		return inboxtest.Storage{Ordered: true, Open: openMemory}
	})
}

func openMemory(work webhook.Work) (engine.Engine, error) {
	return memoryinbox.New(memoryinbox.Config{Work: work})
}
