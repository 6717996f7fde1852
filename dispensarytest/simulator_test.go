package dispensarytest

import (
	"net/http"
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
