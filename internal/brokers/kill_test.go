package brokers_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/testsize"
)

// TestKill sends events, one in four of them twice and in any order, to three receivers,
// which are killed in turn. Twice the connections to the broker are cut. Every event that
// was acknowledged reaches a handler at least once, on every broker.
func TestKill(t *testing.T) {
	t.Parallel()
	one := make(chan struct{}, testsize.Of(6, 1)) // so that the figures of the full size are those of one broker
	eachBroker(t, func(t *testing.T, b broker) {
		one <- struct{}{}
		defer func() { <-one }()
		k := receivertest.NewKillTest(t, testsize.Of(200, 20_000), "in_1")
		var proxy *proxy
		proxy, b.Address = newProxy(t, b.Address)
		settings, err := json.Marshal(receiver{Broker: b, Folder: k.Folder})
		require.NoError(t, err)
		k.Receivers, k.Environ = 3, []string{receiverVariable + "=" + string(settings)}
		k.Pause = testsize.Of(400*time.Millisecond, 0)
		k.Cut = func() { proxy.cut(testsize.Of(300*time.Millisecond, time.Second)) }
		k.Drained = func() bool { return len(k.Handled(t)) == len(k.Keys) }
		k.Run(t)
		k.Check(t)
		assert.Zero(t, k.Exits)
	})
}
