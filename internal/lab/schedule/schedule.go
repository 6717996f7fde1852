// Package schedule runs the replicas of a program in one synctest bubble, one call at a time.
// Each outgoing call of a replica, to a store, the network or an inbox, waits at a yield point
// until the scheduler decides about it. From a seed, the scheduler chooses the next call and its
// [Fate], and decides when time passes and when a replica is killed or stalls. Before each
// decision all goroutines in the bubble are blocked, so the same seed produces the same schedule.
//
// A schedule ends with a recovery: faults stop, dead replicas are restarted, and time passes until
// the scenario is settled. A scenario checks permanent invariants after each decision and final
// invariants after the recovery.
//
// The report of a violation lists the steps of its schedule. The seed reproduces it.
package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// Scheduler decides the steps of one schedule, in one bubble.
type Scheduler struct {
	// Rand is the random source for choices of the scenario. It depends on the seed.
	Rand *rand.Rand

	dice *rand.Rand

	mu      sync.Mutex
	parked  []*parkedCall
	arrived chan struct{}
	free    bool // calls pass while the scenario is created

	processes []*member
	actions   []*action
	inTheEnd  []func() error
	heal      []func()
	cleanup   []func()
	settled   []condition

	steps, faults int
	length        float64
	disturbed     atomic.Int64
	doubled       atomic.Int64
	rate          float64
	recovers      time.Time // start of the recovery
	violation     error
	story         []string
}

// action is an external event, such as an action of a user or an operator.
type action struct {
	name string
	left int
	may  func() bool
	do   func()
}

func newScheduler(seed uint64) *Scheduler {
	s := &Scheduler{
		Rand: rand.New(rand.NewPCG(seed, 1)), dice: rand.New(rand.NewPCG(seed, 2)),
		arrived: make(chan struct{}, 1), free: true, length: 1,
	}
	s.steps = 20 + s.dice.IntN(60)
	s.faults = s.dice.IntN(6)
	s.rate = []float64{0.05, 0.15, 0.35}[s.dice.IntN(3)]
	return s
}

// Lengthen multiplies the number of steps and the maximum number of faults by n. It divides the
// rates of faults, of actions, and of passing time during waiting calls by n. Use it for a
// scenario with many calls per process.
func (s *Scheduler) Lengthen(n int) {
	s.length = float64(n)
	s.steps, s.faults, s.rate = n*s.steps, n*s.faults, s.rate/s.length
}

// Action adds an action that happens up to n times, while may returns true. A nil may always
// allows it.
func (s *Scheduler) Action(name string, n int, may func() bool, do func()) {
	s.actions = append(s.actions, &action{name, n, may, do})
}

// InTheEnd adds a check that must succeed after the recovery.
func (s *Scheduler) InTheEnd(check func() error) { s.inTheEnd = append(s.inTheEnd, check) }

// Cleanup adds a function to call after the schedule, last added first.
func (s *Scheduler) Cleanup(f func()) { s.cleanup = append(s.cleanup, f) }

// Failf reports a violation. The schedule ends with the first one.
func (s *Scheduler) Failf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.violation == nil {
		s.violation = fmt.Errorf(format, args...)
	}
}

// Note adds a line to the story of the schedule.
func (s *Scheduler) Note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.story = append(s.story, "      "+fmt.Sprintf(format, args...))
}

// Disturbed returns the number of events that may excuse repeated work: faults, kills, calls
// delayed for longer than [Patience], and calls of Disturb.
func (s *Scheduler) Disturbed() int { return int(s.disturbed.Load()) }

// Doubled returns the number of calls that ran twice.
func (s *Scheduler) Doubled() int { return int(s.doubled.Load()) }

// Disturb adds a disturbance by the scenario to [Scheduler.Disturbed].
func (s *Scheduler) Disturb() { s.disturbed.Add(1) }

// Patience is the longest delay of an undisturbed call.
const Patience = 3 * time.Second

func (s *Scheduler) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.violation
}

// rest waits until all goroutines are blocked. It reports whether there is no violation yet.
// Each step has a different time, so that timers started by two steps never fire at the same
// time in an undefined order.
func (s *Scheduler) rest() bool {
	synctest.Wait()
	if !s.exclusive() {
		time.Sleep(time.Microsecond)
		synctest.Wait()
	}
	return s.failed() == nil
}

// run runs the schedule.
func (s *Scheduler) run() {
	s.free = false
	for _, m := range s.processes {
		m.begin()
	}
	for n := 0; n < s.steps && s.rest(); n++ {
		s.apply(s.choose(), fmt.Sprintf("%3d. ", n+1))
	}
	if s.rest() {
		s.recover()
	}
}

// choose returns a random decision.
func (s *Scheduler) choose() Decision {
	calls, actions := s.eligible(), s.possibleActions()
	roll := s.dice.Float64()
	switch {
	case len(actions) > 0 && (roll < 0.2/s.length || len(calls) == 0 && roll < 0.7):
		return Decision{Kind: Action, Name: actions[s.dice.IntN(len(actions))].name}
	case len(calls) == 0 || roll > 1-0.07/s.length && !s.exclusive():
		return Decision{Kind: Time, Wait: waits[s.dice.IntN(len(waits))]}
	}
	c := calls[s.dice.IntN(len(calls))]
	d := Decision{Kind: Call, Process: c.process.Name, Name: c.name}
	if s.faults > 0 && s.dice.Float64() < s.rate {
		s.faults--
		d.Fate = c.fates[s.dice.IntN(len(c.fates))]
		if d.Fate == Stalled {
			d.Wait = stalls[s.dice.IntN(len(stalls))]
		}
	}
	return d
}

// Times that pass in one step, from a poll interval to the lifetime of a token, and durations of
// a stall.
var (
	waits  = []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 11 * time.Second, 35 * time.Second, 2 * time.Minute, 15 * time.Minute, 80 * time.Minute, 2 * time.Hour}
	stalls = []time.Duration{500 * time.Millisecond, 6 * time.Second, 13 * time.Second, 35 * time.Second, 75 * time.Second, 6 * time.Minute}
)

// plainStep returns the next step of the recovery: the first call passes, or time does if there
// is no call.
func (s *Scheduler) plainStep() Decision {
	if calls := s.eligible(); len(calls) > 0 {
		return Decision{Kind: Call, Process: calls[0].process.Name, Name: calls[0].name}
	}
	return Decision{Kind: Time, Wait: time.Hour}
}

func (s *Scheduler) possibleActions() []*action {
	var all []*action
	for _, a := range s.actions {
		if a.left > 0 && (a.may == nil || a.may()) {
			all = append(all, a)
		}
	}
	return all
}

// apply carries out a decision.
func (s *Scheduler) apply(d Decision, prefix string) {
	began := time.Now()
	s.mu.Lock()
	s.story = append(s.story, prefix+d.String())
	line := len(s.story) - 1
	s.mu.Unlock()
	switch d.Kind {
	case Action:
		for _, a := range s.actions {
			if a.name == d.Name {
				a.left--
				a.do()
				return
			}
		}
	case Time:
		s.pass(d.Wait)
		s.countHeldUp()
		s.mu.Lock()
		s.story[line] = prefix + time.Since(began).String() + " pass"
		s.mu.Unlock()
	default:
		s.decide(s.find(d), d)
	}
}

// countHeldUp counts the calls that have waited for longer than [Patience].
func (s *Scheduler) countHeldUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.parked {
		if !c.heldUp && time.Since(c.since) > Patience {
			c.heldUp = true
			s.disturbed.Add(1)
		}
	}
}

// pass lets time pass for up to d, until a new call arrives or a stalled call may continue.
func (s *Scheduler) pass(d time.Duration) {
	now := time.Now()
	s.mu.Lock()
	for _, c := range s.parked {
		if until := c.stalledUntil(); until.After(now) {
			d = min(d, until.Sub(now))
		}
	}
	select { // ignore earlier arrivals
	case <-s.arrived:
	default:
	}
	s.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.arrived:
	}
}

// close kills all processes and runs the cleanup functions.
func (s *Scheduler) close() {
	for _, m := range s.processes {
		if m.process != nil {
			m.process.kill()
		}
	}
	for _, f := range slices.Backward(s.cleanup) {
		f()
	}
	time.Sleep(week) // until all sleeping goroutines have ended
}

const week = 7 * 24 * time.Hour

// Scenario adds the processes, actions and invariants of a schedule. It is called in the bubble.
// Its own calls pass.
type Scenario func(s *Scheduler)

// eligible returns the calls that may continue, ordered by process and name, so that the order is
// independent of goroutine scheduling.
func (s *Scheduler) eligible() []*parkedCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var all []*parkedCall
	for _, c := range s.parked {
		if !c.stalledUntil().After(now) && (c.alone || !slices.ContainsFunc(s.parked, func(o *parkedCall) bool { return o.alone && o.process == c.process })) {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *parkedCall) int {
		if n := strings.Compare(a.process.Name, b.process.Name); n != 0 {
			return n
		}
		return strings.Compare(a.name, b.name)
	})
	return all
}

// exclusive reports whether a waiting call forbids time to pass.
func (s *Scheduler) exclusive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.parked, func(c *parkedCall) bool { return c.alone })
}

func (s *Scheduler) find(d Decision) *parkedCall {
	for _, c := range s.eligible() {
		if c.process.Name == d.Process && c.name == d.Name && (d.Fate == Passed || slices.Contains(c.fates, d.Fate)) {
			return c
		}
	}
	return nil
}

func (s *Scheduler) decide(c *parkedCall, d Decision) {
	if d.Fate != Passed {
		s.disturbed.Add(1)
	}
	if d.Fate == Doubled {
		s.doubled.Add(1)
	}
	if d.Fate == Stalled {
		c.until = time.Now().Add(d.Wait)
		return
	}
	c.decided <- d.Fate
}
