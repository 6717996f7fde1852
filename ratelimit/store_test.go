package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/ratelimittest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/ratelimit"
)

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, func(*testing.T) ratelimit.Store { return ratelimit.NewMemoryStore() })
}

// By a clock that stands still, too: processes know a record by its time.
func TestMemoryStoreGivesEachExchangeItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := ratelimit.NewMemoryStore()
		first, err := store.Exchange(t.Context(), "limit", "a", nil, time.Hour)
		require.NoError(t, err)
		second, err := store.Exchange(t.Context(), "limit", "a", nil, time.Hour)
		require.NoError(t, err)
		assert.True(t, second.Records["a"].At.After(first.Records["a"].At))
		assert.False(t, second.Records["a"].At.After(second.Now))
	})
}

func TestStoreIsKilled(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	ratelimittest.RunKilled(t, func(*testing.T) ratelimittest.Server {
		store := newRewindStore()
		return ratelimittest.Server{Store: store, Kill: store.kill, Start: store.start, Save: store.save}
	})
}
