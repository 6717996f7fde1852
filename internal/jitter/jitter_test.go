package jitter

import (
	"math"
	"testing"
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

func TestBackoffDoubles(t *testing.T) {
	for tries, longest := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 6: 20 * time.Second, 1000: 20 * time.Second,
	} {
		for range 100 {
			wait := Backoff(tries, time.Second, 20*time.Second)
			assert.True(t, wait >= longest/2 && wait <= longest, "%d tries: %s", tries, wait)
		}
	}
}

func TestLongBackoffDoesNotOverflow(t *testing.T) {
	for tries := range 100 {
		for _, last := range []time.Duration{48 * time.Hour, math.MaxInt64} {
			wait := Backoff(tries, time.Hour, last)
			assert.True(t, wait >= time.Hour/2 && wait <= last, "%d tries: %s", tries, wait)
		}
	}
}
