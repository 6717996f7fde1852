package dispensarytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestSimulatorOnAFrozenClock(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) []string {
		b, hook := hooked(t, nil, WithBehavior(DeliveryConditionsOff))
		sim, err := b.fake.Simulate(SimulatorOptions{Rate: 10, Seed: seed})
		require.NoError(t, err)
		b.fake.Clock().Advance(20 * time.Second)
		sim.Stop()
		b.fake.Clock().Advance(time.Hour)
		report := sim.Report()
		require.NoError(t, report.Err)
		assert.Equal(t, 200, report.Total)
		assert.Equal(t, 20*time.Second, report.Elapsed)
		assert.Len(t, report.Events, 6, "%v", report.Events)
		assert.Len(t, hook.all(), 200)
		var types []string
		for _, e := range b.fake.Events() {
			types = append(types, e.Type)
		}
		return types
	}
	one := run(1)
	assert.Equal(t, one, run(1))
	assert.NotEqual(t, one, run(2))
}

func TestSimulatorInTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := New(t, WithInMemory(), WithWorldSize(model.WorldSize{Clinics: 3, Patients: 100}))
		sim, err := fake.Simulate(SimulatorOptions{Rate: 100})
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, 1000, sim.Report().Total)
		require.NoError(t, fake.Close())
		time.Sleep(time.Second)
		assert.Equal(t, 1000, sim.Report().Total, "closing stops it")
	})
	_, err := New(t, WithInMemory()).Simulate(SimulatorOptions{})
	require.Error(t, err)
}

// A receiver that is too slow for the rate gets events as fast as it takes them, and
// all that are late once it has become quick.
func TestSimulatorWaitsForASlowReceiver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got atomic.Int64
		fake := New(t, WithInMemory(), WithBehavior(DeliveryConditionsOff))
		challenge := fake.Application().ChallengeToken
		activate(t, fake)
		require.NoError(t, fake.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if got.Add(1) <= 30 {
				time.Sleep(time.Second)
			}
			acknowledge(w, challenge)
		})))
		sim, err := fake.Simulate(SimulatorOptions{Rate: 10})
		require.NoError(t, err)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		assert.InDelta(t, 20, sim.Report().Total, 1)
		assert.InDelta(t, 20, got.Load(), 1)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		assert.Equal(t, 400, sim.Report().Total)
		assert.Equal(t, int64(400), got.Load())
	})
}

// bareReceiver is a receiver that does nothing but answer, on a socket.
func bareReceiver(t testing.TB, fake *Server, pause time.Duration) *atomic.Int64 {
	t.Helper()
	var got atomic.Int64
	answer := []byte(fmt.Sprintf(`{"challenge":%q}`, fake.Application().ChallengeToken))
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pause)
		got.Add(1)
		_, _ = w.Write(answer)
	}))
	t.Cleanup(endpoint.Close)
	activate(t, fake)
	require.NoError(t, fake.Webhooks.Register(endpoint.URL))
	return &got
}

// Target: 500 events per second at a bare receiver on loopback, one by one, and at
// a slow one when several are sent at a time. The last two ask for more than there
// is, and so find out how much that is.
func BenchmarkSimulator(b *testing.B) {
	for _, c := range []struct {
		name     string
		rate     float64
		parallel int
		pause    time.Duration
	}{
		{"500, one at a time", 500, 1, 0}, {"500, receiver of 10ms", 500, 16, 10 * time.Millisecond},
		{"all, one at a time", 1e6, 1, 0}, {"all, 16 at a time", 1e6, 16, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			const window = 4 * time.Second
			fake := New(b, WithBehavior(DeliveryConditionsOff), WithParallelDelivery(c.parallel))
			got := bareReceiver(b, fake, c.pause)
			b.ResetTimer()
			sim, err := fake.Simulate(SimulatorOptions{Rate: c.rate})
			require.NoError(b, err)
			time.Sleep(window)
			delivered := got.Load()
			sim.Stop()
			b.ReportMetric(float64(delivered)/window.Seconds(), "delivered/s")
			b.ReportMetric(float64(sim.Report().Total)/window.Seconds(), "events/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func TestParallelDelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory(), WithBehavior(DeliveryConditionsOff), WithParallelDelivery(8))
		challenge := b.fake.Application().ChallengeToken
		activate(b.t, b.fake)
		require.NoError(t, b.fake.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			acknowledge(w, challenge)
		})))
		began := time.Now()
		var events []model.Event
		for range 16 {
			_, e := b.place()
			events = append(events, e)
		}
		for _, e := range events {
			require.NoError(t, b.wait(e))
		}
		assert.Equal(t, 2*time.Second, time.Since(began), "two rounds of eight")
		for _, d := range b.fake.Webhooks.Deliveries() {
			assert.True(t, d.Delivered)
		}
	})
	_, err := Start(WithParallelDelivery(0))
	require.Error(t, err)
}
