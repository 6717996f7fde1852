package ratelimit_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/ratelimit/storetest"
)

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) ratelimit.Store { return ratelimit.NewMemoryStore() })
}
