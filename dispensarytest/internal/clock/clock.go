// Package clock implements the time of a platform: a clock that can be frozen and advanced,
// the tasks scheduled on it, and a notifier that wakes the observers of a platform. Package
// store defines the order of its locks among the platform's locks.
package clock

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Clock implements dispensarytest.Clock.
type Clock struct {
	mu       sync.Mutex
	frozen   bool
	fixed    time.Time     // the time of a frozen clock
	offset   time.Duration // total advance of a live clock
	due      []*Task       // sorted by time, and by their scheduling
	timer    *time.Timer   // wakes a live clock for its next task
	draining bool          // a drain goroutine is starting or running

	moved    chan struct{} // closed when the clock moves; nil if no caller waits
	watchers []*Notifier   // of the platforms with this clock

	// runToken belongs to the goroutine that runs tasks, so tasks run one at a time and in
	// order. It is a channel, because in a synctest bubble a wait on a channel is durably
	// blocking and a wait on a mutex is not.
	runToken chan struct{}
}

// Live returns a clock that follows the time package.
func Live() *Clock { return &Clock{runToken: make(chan struct{}, 1)} }

// Frozen returns a clock that moves only when it is advanced.
func Frozen(at time.Time) *Clock {
	return &Clock{frozen: true, fixed: at.UTC(), runToken: make(chan struct{}, 1)}
}

// LiveAhead returns a live clock that is ahead by offset.
func LiveAhead(offset time.Duration) *Clock {
	c := Live()
	c.offset = offset
	return c
}

// Offset returns the total advance of a live clock.
func (c *Clock) Offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

// Pause waits for the running task and blocks all others until resume is called.
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

// Frozen reports whether the clock moves only by [Clock.Advance].
func (c *Clock) Frozen() bool { return c.frozen }

// Next returns the time of the next task. It returns false if there is no task.
func (c *Clock) Next() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.due) == 0 {
		return time.Time{}, false
	}
	return c.due[0].At, true
}

// Advance moves the clock forward and runs due tasks, each at its own time. It panics if d is
// negative.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic("dispensarytest: Clock.Advance: time does not run backwards")
	}
	defer c.Pause()()

	c.mu.Lock()
	target := c.now().Add(d)
	for len(c.due) > 0 && !c.due[0].At.After(target) {
		next := c.pop()
		c.moveTo(next.At)
		c.mu.Unlock()
		next.Run()
		c.mu.Lock()
	}
	c.moveTo(target)
	c.arm()
	c.mu.Unlock()
}

// Push schedules a task. The task runs on a goroutine of the clock at t.At. Drop cancels it.
func (c *Clock) Push(t *Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, _ := slices.BinarySearchFunc(c.due, t.At, func(other *Task, at time.Time) int {
		return cmp.Or(other.At.Compare(at), -1) // after tasks with the same time
	})
	c.due = slices.Insert(c.due, at, t)
	c.arm()
}

// pop removes the next task. The caller holds mu.
func (c *Clock) pop() *Task {
	next := c.due[0]
	c.due[0], c.due = nil, c.due[1:]
	return next
}

// Drop cancels all tasks of an owner, and stops the timer if no task remains. A closed
// platform so leaves no goroutine or timer behind.
func (c *Clock) Drop(owner any) {
	c.remove(func(t *Task) bool { return t.Owner == owner })
}

// Forget cancels some tasks.
func (c *Clock) Forget(some map[*Task]bool) {
	if len(some) > 0 {
		c.remove(func(t *Task) bool { return some[t] })
	}
}

func (c *Clock) remove(which func(*Task) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = slices.DeleteFunc(c.due, which)
	if c.timer != nil {
		c.timer.Stop()
	}
	c.arm()
}

// Watch notifies w each time the clock moves.
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
	// Round removes the monotonic reading, because an advanced clock disagrees with it.
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

// Wait returns true once the clock reaches until, or false if a channel is closed first. It is
// not a task: tasks run one at a time, and a running delivery may itself wait for the caller.
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
		var passed <-chan time.Time // nil on a frozen clock: never fires
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

// arm ensures that the next task will run. The caller holds mu.
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

// drain runs the due tasks without moving the clock.
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
		next := c.pop()
		c.mu.Unlock()
		next.Run()
	}
}

type Task struct {
	Owner any
	At    time.Time
	Run   func()
}

// Notifier wakes the observers of a platform. Its lock is the last in the order of locks. It
// costs little without observers.
type Notifier struct {
	mu     sync.Mutex
	next   chan struct{} // nil if no caller waits
	closed bool
}

func (c *Notifier) Wait() (<-chan struct{}, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil && !c.closed {
		c.next = make(chan struct{})
	}
	return c.next, !c.closed
}

// Notify wakes the observers after a change.
func (c *Notifier) Notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Close wakes the observers a last time. No change follows.
func (c *Notifier) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.Notify()
}
