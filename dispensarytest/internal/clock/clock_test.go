package clock

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func schedule(c *Clock, owner any, at time.Time, run func()) {
	c.Push(&Task{Owner: owner, At: at, Run: run})
}

func TestAdvanceRunsDueTasksInOrder(t *testing.T) {
	t.Parallel()
	for _, clock := range []*Clock{frozenAt(), Live()} {
		start := clock.Now()
		var order []string
		note := func(name string) func() {
			return func() {
				order = append(order, name)
				assert.False(t, clock.Now().Before(start.Add(time.Minute)))
			}
		}
		schedule(clock, t, start.Add(3*time.Minute), note("third"))
		schedule(clock, t, start.Add(time.Minute), func() {
			note("first")()
			schedule(clock, t, clock.Now().Add(time.Minute), note("second"))
		})
		schedule(clock, t, start.Add(time.Hour), note("later"))
		clock.Advance(10 * time.Minute)
		assert.Equal(t, []string{"first", "second", "third"}, order)
		next, waiting := clock.Next()
		assert.True(t, waiting)
		assert.Equal(t, start.Add(time.Hour), next)
		assert.GreaterOrEqual(t, clock.Now().Sub(start), 10*time.Minute)
	}
	assert.Panics(t, func() { frozenAt().Advance(-1) })
}

func TestDueTasksRunWithoutAdvance(t *testing.T) {
	t.Parallel()
	clock := frozenAt()
	done := make(chan struct{})
	schedule(clock, t, clock.Now(), func() { close(done) })
	<-done
}

func TestLiveClockFollowsBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := Live()
		began, ran := clock.Now(), time.Time{}
		schedule(clock, t, began.Add(5*time.Hour), func() { ran = clock.Now() })
		schedule(clock, t, began.Add(time.Second), func() {})
		time.Sleep(5*time.Hour + time.Second)
		synctest.Wait()
		assert.Equal(t, began.Add(5*time.Hour), ran)
	})
}

func TestDroppedTasksAreNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, clock := range []*Clock{frozenAt(), Live()} {
			ran := make(map[string]bool)
			one, two := new(int), new(int)
			schedule(clock, one, clock.Now().Add(time.Minute), func() { ran["one"] = true })
			schedule(clock, two, clock.Now().Add(2*time.Minute), func() { ran["two"] = true })
			schedule(clock, one, clock.Now().Add(3*time.Minute), func() { ran["three"] = true })
			clock.Drop(one)
			next, waiting := clock.Next()
			assert.True(t, waiting)
			assert.Equal(t, clock.Now().Add(2*time.Minute), next)
			time.Sleep(time.Hour)
			synctest.Wait()
			clock.Advance(time.Hour)
			assert.Equal(t, map[string]bool{"two": true}, ran)
			clock.Drop(two)
			_, waiting = clock.Next()
			assert.False(t, waiting)
		}
	})
}

// A live clock can be ahead of the time package. It continues from there.
func TestAdvancedLiveClockKeepsRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := Live()
		assert.False(t, clock.Frozen())
		began := time.Now()
		clock.Advance(time.Hour)
		assert.Equal(t, time.Hour, clock.Now().Sub(began))
		var ran time.Duration
		schedule(clock, t, clock.Now().Add(time.Minute), func() { ran = time.Since(began) })
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, time.Minute, ran, "a minute on either clock")
		assert.Equal(t, time.Hour+time.Minute, clock.Now().Sub(began))
	})
}

// Concurrent calls of Advance take turns, and their durations add up.
func TestConcurrentAdvancesAddUp(t *testing.T) {
	t.Parallel()
	clock := frozenAt()
	began := clock.Now()
	var mu sync.Mutex
	var at []time.Duration
	for i := range 100 {
		schedule(clock, t, began.Add(time.Duration(i)*time.Second), func() {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, clock.Now().Sub(began))
		})
	}
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() { clock.Advance(10 * time.Second) })
	}
	group.Wait()
	assert.Equal(t, 100*time.Second, clock.Now().Sub(began))
	assert.Len(t, at, 100)
	assert.True(t, slices.IsSorted(at))
	assert.True(t, clock.Frozen())
}

func TestSimultaneousTasksKeepOrder(t *testing.T) {
	t.Parallel()
	clock := frozenAt()
	var order []int
	for i := range 50 {
		schedule(clock, t, clock.Now().Add(time.Minute), func() { order = append(order, i) })
	}
	clock.Advance(time.Minute)
	assert.Len(t, order, 50)
	assert.True(t, slices.IsSorted(order))
}

func frozenAt() *Clock { return Frozen(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)) }
