package ratelimit_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/ratelimit/storetest"
)

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) ratelimit.Store { return ratelimit.NewMemoryStore() })
}

func TestStoreIsKilled(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	storetest.RunKilled(t, func(*testing.T) storetest.Server {
		store := newRewindStore()
		return storetest.Server{Store: store, Kill: store.kill, Start: store.start, Save: store.save}
	})
}
