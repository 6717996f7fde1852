package dispensarytest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAdvanceRunsWhatFallsDueInOrder(t *testing.T) {
	t.Parallel()
	for _, clock := range []*Clock{frozen(), LiveClock()} {
		start := clock.Now()
		var order []string
		note := func(name string) func() {
			return func() {
				order = append(order, name)
				assert.False(t, clock.Now().Before(start.Add(time.Minute)))
			}
		}
		clock.schedule(start.Add(3*time.Minute), note("third"))
		clock.schedule(start.Add(time.Minute), func() {
			note("first")()
			clock.schedule(clock.Now().Add(time.Minute), note("second"))
		})
		clock.schedule(start.Add(time.Hour), note("later"))
		clock.Advance(10 * time.Minute)
		assert.Equal(t, []string{"first", "second", "third"}, order)
		next, waiting := clock.Next()
		assert.True(t, waiting)
		assert.Equal(t, start.Add(time.Hour), next)
		assert.GreaterOrEqual(t, clock.Now().Sub(start), 10*time.Minute)
	}
	assert.Panics(t, func() { frozen().Advance(-1) })
}

func TestDueTasksRunWithoutAdvance(t *testing.T) {
	t.Parallel()
	clock := frozen()
	done := make(chan struct{})
	clock.schedule(clock.Now(), func() { close(done) })
	<-done
}

func TestLiveClockFollowsTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := LiveClock()
		began, ran := clock.Now(), time.Time{}
		clock.schedule(began.Add(5*time.Hour), func() { ran = clock.Now() })
		clock.schedule(began.Add(time.Second), func() {})
		time.Sleep(5*time.Hour + time.Second)
		synctest.Wait()
		assert.Equal(t, began.Add(5*time.Hour), ran)
	})
}
