package jitter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestNStaysBelowLimit(t *testing.T) {
	for _, n := range []time.Duration{-time.Second, 0} {
		assert.Zero(t, N(n))
	}
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := N(10)
		assert.True(t, d >= 0 && d < 10, d)
		seen[d] = true
	}
	assert.Len(t, seen, 10, "N returns every duration")
}

func TestFollowClockRepeatsWaitsAtSameTime(t *testing.T) {
	FollowClock()
	t.Cleanup(func() { followsClock.Store(false) })
	draw := func() (all []time.Duration) {
		synctest.Test(t, func(*testing.T) {
			for range 100 {
				d := N(time.Second)
				assert.True(t, d >= 0 && d < time.Second, d)
				assert.Equal(t, d, N(time.Second), "same wait at the same time")
				all = append(all, d)
				time.Sleep(time.Nanosecond)
			}
		})
		return all
	}
	first := draw()
	assert.Equal(t, first, draw())
	distinct := map[time.Duration]bool{}
	for _, d := range first {
		distinct[d/(100*time.Millisecond)] = true
	}
	assert.Len(t, distinct, 10, "waits are spread over the whole second")
}
