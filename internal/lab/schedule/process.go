package schedule

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"
)

// Process is one life of a replica, from a start until a kill. A restart creates another Process.
// All outgoing calls of a process go through [Do].
type Process struct {
	Name string

	s       *Scheduler
	ctx     context.Context
	cancel  context.CancelFunc
	killed  chan struct{}
	stalled time.Time // no call of the process continues before this time
}

// member is a replica with all its processes.
type member struct {
	name    string
	s       *Scheduler
	start   func(*Process)
	process *Process
}

// Process adds a replica. start starts it, and restarts it after each kill. The scheduler kills
// it up to kills times and stalls it up to stalls times.
func (s *Scheduler) Process(name string, kills, stalls int, start func(*Process)) {
	m := &member{name: name, s: s, start: start}
	s.processes = append(s.processes, m)
	alive := func() bool { return m.process.Alive() }
	s.Action("kill "+name, kills, alive, func() { m.process.kill() })
	s.Action("restart "+name, kills, func() bool { return !alive() }, m.begin)
	s.Action(name+" stalls for 40s", stalls, alive, func() { m.process.stalled = time.Now().Add(40 * time.Second) })
}

func (m *member) begin() {
	p := &Process{Name: m.name, s: m.s, killed: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	m.process = p
	m.start(p)
}

// Context returns a context that ends with the process.
func (p *Process) Context() context.Context { return p.ctx }

// Alive reports whether the process was not killed. Anything that a dead process still does in
// memory does not count.
func (p *Process) Alive() bool {
	select {
	case <-p.killed:
		return false
	default:
		return true
	}
}

// kill ends the process immediately. It makes no further calls, and its running calls get no
// response.
func (p *Process) kill() {
	if p.Alive() {
		p.s.disturbed.Add(1)
		close(p.killed)
		p.cancel()
	}
}

// Spec describes a call.
type Spec struct {
	Name  string
	Fates []Fate // possible fates; Late and Stalled are added unless Alone is set

	// Fail returns the error of a fate.
	Fail func(Fate) error

	// Alone is set if the caller holds a lock. Until the call is decided, its process makes no
	// other call and no time passes.
	Alone bool
}

// ErrKilled is the error of calls with Alone in a dead process. Other calls end their goroutine.
var ErrKilled = errors.New("the process was killed")

// parkedCall is a call waiting at its yield point.
type parkedCall struct {
	process *Process
	name    string
	fates   []Fate
	alone   bool
	since   time.Time
	heldUp  bool
	until   time.Time // end of the stall
	decided chan Fate
}

func (c *parkedCall) stalledUntil() time.Time {
	if c.alone {
		return time.Time{} // other goroutines wait for its lock, which stops time in the bubble
	}
	if c.process.stalled.After(c.until) {
		return c.process.stalled
	}
	return c.until
}

// Do waits for the scheduler's decision about a call and carries it out. It fails with the error
// of ctx if ctx ends before the decision.
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
		if _, gone := p.wait(ctx, call.Name+", response", []Fate{Stalled}, false); gone != nil {
			return none, gone
		}
	}
	return result, err
}

// Step is a yield point of an actor. It returns once the scheduler lets the actor continue.
func (p *Process) Step(name string) { _, _ = p.wait(p.ctx, name, []Fate{Stalled}, false) }

// wait waits for the decision about a call.
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
	case <-p.killed: // check first, because a kill also ends ctx
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

// end ends the goroutine of a call in a dead process. With alone, it returns ErrKilled instead.
func (p *Process) end(alone bool) (Fate, error) {
	if !alone {
		runtime.Goexit()
	}
	return Passed, ErrKilled
}

// Processes returns the number of replicas.
func (s *Scheduler) Processes() int { return len(s.processes) }
