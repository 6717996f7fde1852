package ratelimit_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/internal/testkit/ratelimittest"
	"github.com/dispensary-go/dispensary/ratelimit"
)

func TestMemoryStorePassesConformanceSuite(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, func(*testing.T) ratelimit.Store { return ratelimit.NewMemoryStore() })
}

func TestFleetSurvivesFailingStore(t *testing.T) {
	t.Parallel()
	store := &faultyStore{store: ratelimit.NewMemoryStore()}
	ratelimittest.RunKilled(t, ratelimittest.Server{
		Store: store,
		Kill:  func() { store.set(down) },
		Start: func() { store.set(nil) },
	})
}
