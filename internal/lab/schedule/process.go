package schedule

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"
)

// Process is one life of a replica: killing it ends it, and another one begins with the
// restart. Every call that leaves it goes through [Do].
type Process struct {
	Name string

	s       *Scheduler
	ctx     context.Context
	cancel  context.CancelFunc
	killed  chan struct{}
	stalled time.Time // until then none of its calls goes on
}

// member is a replica through all its lives.
type member struct {
	name    string
	s       *Scheduler
	start   func(*Process)
	process *Process
}

// Process adds a replica, which start starts, also again after a kill. It is killed and
// stands still up to so many times.
func (s *Scheduler) Process(name string, kills, stalls int, start func(*Process)) {
	m := &member{name: name, s: s, start: start}
	s.processes = append(s.processes, m)
	alive := func() bool { return m.process.Alive() }
	s.Action("kill "+name, kills, alive, func() { m.process.kill() })
	s.Action("restart "+name, kills, func() bool { return !alive() }, m.begin)
	s.Action(name+" stands still for 40s", stalls, alive, func() { m.process.stalled = time.Now().Add(40 * time.Second) })
}

func (m *member) begin() {
	p := &Process{Name: m.name, s: m.s, killed: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	m.process = p
	m.start(p)
}

// Context ends when the process is killed.
func (p *Process) Context() context.Context { return p.ctx }

// Alive reports that the process was not killed: what a dead one still does in memory
// counts for nothing.
func (p *Process) Alive() bool {
	select {
	case <-p.killed:
		return false
	default:
		return true
	}
}

// kill ends the process where it stands: no call leaves it any more, and those under way
// get no answer.
func (p *Process) kill() {
	if p.Alive() {
		p.s.disturbed.Add(1)
		close(p.killed)
		p.cancel()
	}
}

// Spec says what a call is.
type Spec struct {
	Name  string
	Fates []Fate // that it can meet; Late and Stalled are added

	// Fail makes the error of a fate.
	Fail func(Fate) error

	// Alone is set for a call that is made under a lock: until it is decided nothing else of
	// its process goes on, and no time passes.
	Alone bool
}

// ErrKilled is what the calls of a dead process meet that are made under a lock. Others
// end their goroutine.
var ErrKilled = errors.New("the process was killed")

// parkedCall is a call that waits at its yield point.
type parkedCall struct {
	process *Process
	name    string
	fates   []Fate
	alone   bool
	since   time.Time
	heldUp  bool
	until   time.Time // it is stalled
	decided chan Fate
}

func (c *parkedCall) stalledUntil() time.Time {
	if c.alone {
		return time.Time{} // others wait for its lock in a way that keeps time from passing
	}
	if c.process.stalled.After(c.until) {
		return c.process.stalled
	}
	return c.until
}

// Do makes a call: it waits for the scheduler's decision, and does what that says. A call
// whose ctx ends while it waits fails with the error of ctx.
func Do[T any](ctx context.Context, p *Process, call Spec, work func() (T, error)) (T, error) {
	var none T
	fates := append(slices.Clone(call.Fates), Late, Stalled)
	if call.Alone {
		fates = call.Fates
	}
	fate, err := p.wait(ctx, call.Name, fates, call.Alone)
	if err != nil {
		return none, err
	}
	switch fate {
	case Refused, Dropped, Unavailable:
		return none, call.Fail(fate)
	}
	result, err := work()
	switch fate {
	case Doubled:
		result, err = work()
	case AnswerLost:
		return none, call.Fail(fate)
	case Late:
		if _, gone := p.wait(ctx, call.Name+", the answer", []Fate{Stalled}, false); gone != nil {
			return none, gone
		}
	}
	return result, err
}

// Step is a yield point of an actor: what follows happens when the scheduler says so.
func (p *Process) Step(name string) { _, _ = p.wait(p.ctx, name, []Fate{Stalled}, false) }

// wait waits for a decision.
func (p *Process) wait(ctx context.Context, name string, fates []Fate, alone bool) (Fate, error) {
	s := p.s
	if !p.Alive() {
		return p.end(alone)
	}
	if err := ctx.Err(); err != nil {
		return Passed, err
	}
	c := &parkedCall{process: p, name: name, fates: fates, alone: alone, since: time.Now(), decided: make(chan Fate, 1)}
	s.mu.Lock()
	if s.free {
		s.mu.Unlock()
		return Passed, nil
	}
	s.parked = append(s.parked, c)
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.parked = slices.DeleteFunc(s.parked, func(o *parkedCall) bool { return o == c })
	}()
	select {
	case <-p.killed: // before the end of ctx, which comes with it
		return p.end(alone)
	default:
	}
	select {
	case fate := <-c.decided:
		return fate, nil
	case <-p.killed:
		return p.end(alone)
	case <-ctx.Done():
		if !p.Alive() {
			return p.end(alone)
		}
		return Passed, ctx.Err()
	}
}

// end ends a goroutine of a dead process.
func (p *Process) end(alone bool) (Fate, error) {
	if !alone {
		runtime.Goexit()
	}
	return Passed, ErrKilled
}

// Processes returns how many replicas there are.
func (s *Scheduler) Processes() int { return len(s.processes) }
