package inboxtest_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/inboxtest"
)

// TestMemoryInbox holds the inbox of package webhook to what it claims.
func TestMemoryInbox(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, func(*testing.T) inboxtest.Storage {
		return inboxtest.Storage{Ordered: true, Open: openMemory}
	})
}

func openMemory(work webhook.Work) (webhook.Engine, error) {
	return webhook.NewMemoryInbox(webhook.MemoryConfig{
		Handle:         work.Handle,
		Workers:        work.Workers,
		MaxAttempts:    work.Retry.MaxAttempts,
		BackOff:        work.Retry.BackOff,
		MaxBackOff:     work.Retry.MaxBackOff,
		HandlerTimeout: work.HandlerTimeout,
		Order:          work.Order,
		Stale:          work.Stale,
		Logger:         work.Logger,
		Observe:        work.Observe,
	})
}
