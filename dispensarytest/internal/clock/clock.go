// Package clock is the time of a platform: a clock that can be frozen and advanced, the
// tasks that wait for it, and the notifier that wakes what watches a platform.
//
// Where its locks stand among the platform's is said in package store.
package clock

import (
	"container/heap"
	"slices"
	"sync"
	"time"
)

// Clock implements dispensarytest.Clock.
type Clock struct {
	mu       sync.Mutex
	frozen   bool
	fixed    time.Time     // the time of a frozen clock
	offset   time.Duration // how far a live clock has been advanced
	due      taskHeap
	seq      uint64
	timer    *time.Timer // wakes a live clock for its next task
	draining bool        // a drain goroutine is on its way or at work

	moved    chan struct{} // closed when the clock is moved; nil while nothing waits
	watchers []*Notifier   // of the platforms that have this clock

	// runToken is held by the goroutine that runs tasks, so that they run one at a
	// time and in order. It is a channel and not a mutex because only a wait on a
	// channel is durably blocking in a synctest bubble.
	runToken chan struct{}
}

// Live returns a clock that follows the time package.
func Live() *Clock { return &Clock{runToken: make(chan struct{}, 1)} }

// Frozen returns a clock that stands until it is advanced.
func Frozen(at time.Time) *Clock {
	return &Clock{frozen: true, fixed: at.UTC(), runToken: make(chan struct{}, 1)}
}

// LiveAhead returns a live clock that has been advanced.
func LiveAhead(offset time.Duration) *Clock {
	c := Live()
	c.offset = offset
	return c
}

// Offset is how far a live clock has been advanced.
func (c *Clock) Offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

// Pause waits for the task that runs, and keeps others from running until resume is
// called.
func (c *Clock) Pause() (resume func()) {
	c.runToken <- struct{}{}
	return func() { <-c.runToken }
}

// Now returns the platform's time, in UTC.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

// Frozen reports that the clock moves only by [Clock.Advance].
func (c *Clock) Frozen() bool { return c.frozen }

// Next returns when the next task is due, and false if none waits.
func (c *Clock) Next() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.due) == 0 {
		return time.Time{}, false
	}
	return c.due[0].At, true
}

// Advance moves the clock forward and runs due tasks, each at its own time. A negative
// duration panics.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic("dispensarytest: Clock.Advance: time does not run backwards")
	}
	defer c.Pause()()

	c.mu.Lock()
	target := c.now().Add(d)
	for len(c.due) > 0 && !c.due[0].At.After(target) {
		next := heap.Pop(&c.due).(*Task)
		c.moveTo(next.At)
		c.mu.Unlock()
		next.Run()
		c.mu.Lock()
	}
	c.moveTo(target)
	c.arm()
	c.mu.Unlock()
}

// Push schedules a task. It runs once the clock reaches its time, on a goroutine of the
// clock. The owner can drop it.
func (c *Clock) Push(t *Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	t.seq = c.seq
	heap.Push(&c.due, t)
	c.arm()
}

// Drop forgets all tasks of an owner, and the timer with the last one: a
// platform that is closed leaves nothing behind.
func (c *Clock) Drop(owner any) {
	c.remove(func(t *Task) bool { return t.Owner == owner })
}

// Forget is drop for some tasks.
func (c *Clock) Forget(some map[*Task]bool) {
	if len(some) > 0 {
		c.remove(func(t *Task) bool { return some[t] })
	}
}

func (c *Clock) remove(which func(*Task) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = slices.DeleteFunc(c.due, which)
	heap.Init(&c.due)
	if c.timer != nil {
		c.timer.Stop()
	}
	c.arm()
}

// Watch notifies w of the moves of the clock.
func (c *Clock) Watch(w *Notifier) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers = append(c.watchers, w)
}

func (c *Clock) Unwatch(w *Notifier) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers = slices.DeleteFunc(c.watchers, func(other *Notifier) bool { return other == w })
}

func (c *Clock) now() time.Time {
	if c.frozen {
		return c.fixed
	}
	// Rounding strips the monotonic reading, which an advanced clock no longer
	// agrees with.
	return time.Now().Add(c.offset).Round(0).UTC()
}

func (c *Clock) moveTo(t time.Time) {
	ahead := t.Sub(c.now())
	if ahead <= 0 {
		return
	}
	if c.moved != nil {
		close(c.moved)
		c.moved = nil
	}
	for _, w := range c.watchers {
		w.Notify()
	}
	if c.frozen {
		c.fixed = t
		return
	}
	c.offset += ahead
}

// Wait returns once the clock shows the moment until, or false when one of the
// channels is closed before. It is no task: those run one at a time, and a delivery
// among them may be waiting for the very caller.
func (c *Clock) Wait(gone, closed <-chan struct{}, until time.Time) bool {
	for {
		c.mu.Lock()
		left := until.Sub(c.now())
		if c.moved == nil {
			c.moved = make(chan struct{})
		}
		moved := c.moved
		c.mu.Unlock()
		if left <= 0 {
			return true
		}
		var passed <-chan time.Time // never, on a frozen clock
		if !c.frozen {
			passed = time.After(left)
		}
		select {
		case <-gone:
			return false
		case <-closed:
			return false
		case <-moved:
		case <-passed:
		}
	}
}

// arm makes sure that the next task will run. The caller holds mu.
func (c *Clock) arm() {
	if len(c.due) == 0 || c.draining {
		return
	}
	wait := c.due[0].At.Sub(c.now())
	switch {
	case wait <= 0:
		c.draining = true
		go c.drain()
	case c.frozen:
	case c.timer == nil:
		c.timer = time.AfterFunc(wait, c.onTimer)
	default:
		c.timer.Reset(wait)
	}
}

func (c *Clock) onTimer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arm()
}

// drain runs what is due now, without moving the clock.
func (c *Clock) drain() {
	defer c.Pause()()
	for {
		c.mu.Lock()
		if len(c.due) == 0 || c.due[0].At.After(c.now()) {
			c.draining = false
			c.arm()
			c.mu.Unlock()
			return
		}
		next := heap.Pop(&c.due).(*Task)
		c.mu.Unlock()
		next.Run()
	}
}

type Task struct {
	Owner any
	At    time.Time
	seq   uint64 // tasks of one moment run in the order they were scheduled
	Run   func()
}

type taskHeap []*Task

func (h taskHeap) Len() int { return len(h) }

func (h taskHeap) Less(i, j int) bool {
	if h[i].At.Equal(h[j].At) {
		return h[i].seq < h[j].seq
	}
	return h[i].At.Before(h[j].At)
}

func (h taskHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *taskHeap) Push(x any) { *h = append(*h, x.(*Task)) }

func (h *taskHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}
