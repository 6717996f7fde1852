package explore

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/schedule"
)

// World is what one schedule is about: a platform, and replicas of the code under test.
type World struct {
	s        *schedule.Scheduler
	platform *dispensarytest.Server
	sender   *schedule.Process

	mu        sync.Mutex
	receivers []*Replica // that have a handler, in the order in which they were added first
	turn      int
	name      map[string]string // of ids
}

// Platform is the platform of this schedule.
func (w *World) Platform() *dispensarytest.Server { return w.platform }

// Replica adds a replica of the code under test. start starts it, and starts it again after
// it was killed: it must return, and leaves what goes on to goroutines.
func (w *World) Replica(name string, start func(r *Replica)) {
	w.s.Process(name, 2, 1, func(p *schedule.Process) { start(&Replica{w: w, process: p}) })
}

// Do adds something that happens up to n times, whenever the scheduler says so: what the
// platform's people do, an operator, or what the environment does to the code under test. It must not
// block.
func (w *World) Do(name string, n int, do func()) { w.s.Action(name, n, nil, do) }

// Always adds what must hold after every decision; its error is the violation.
func (w *World) Always(check func() error) { w.s.Always(check) }

// Until adds what the recovery waits for. It is a violation if that has not come about after
// three days of the bubble's time, or thousands of decisions.
func (w *World) Until(name string, holds func() bool) { w.s.SettledWhen(name, holds) }

// InTheEnd adds what must hold once everything that [World.Until] waits for has come about.
func (w *World) InTheEnd(check func() error) { w.s.InTheEnd(check) }

// Failf reports a violation.
func (w *World) Failf(format string, args ...any) { w.s.Failf(format, args...) }

// Recovering reports that nothing fails any more.
func (w *World) Recovering() bool { return w.s.Recovering() > 0 }

// Replica is one life of a replica.
type Replica struct {
	w       *World
	process *schedule.Process
	handler http.Handler
}

// Name is the replica's, the same in each life.
func (r *Replica) Name() string { return r.process.Name }

// Context ends when the replica is killed.
func (r *Replica) Context() context.Context { return r.process.Context() }

// Alive reports that the replica was not killed. What goes on in a dead one may still run up
// to its next call; a test does not count it.
func (r *Replica) Alive() bool { return r.process.Alive() }

// Client is an HTTP client that reaches the platform through the scheduler: requests may be
// refused, lost, carried out without an answer, or twice, and answered late, or with a 503.
func (r *Replica) Client() *http.Client {
	return &http.Client{Transport: r.process.Transport(r.w.platform.HTTPClient().Transport, r.w.tell)}
}

// Step is a point at which the replica waits until the scheduler lets it go on: the next
// turn of a loop, a person's click.
func (r *Replica) Step(name string) { r.process.Step(name) }

// endpoint is where the platform sends webhooks to.
const endpoint = "https://replicas.example.com/webhooks"

// Receive makes a handler the replica's receiver of webhooks. Each webhook goes to one of
// the replicas that have one, in turn, as behind a load balancer; types are those of
// [dispensarytest.Webhooks.Register].
func (r *Replica) Receive(handler http.Handler, types ...string) {
	r.handler = handler
	w := r.w
	w.mu.Lock()
	first := len(w.receivers) == 0
	replaced := false
	for i, other := range w.receivers {
		if other.Name() == r.Name() {
			w.receivers[i], replaced = r, true
		}
	}
	if !replaced {
		w.receivers = append(w.receivers, r)
	}
	w.mu.Unlock()
	if first {
		if err := w.platform.Webhooks.Register(endpoint, types...); err != nil {
			w.Failf("%w", err)
		}
	}
}

// ErrLost is the error of a [Call] whose answer is lost: it may have been carried out.
var ErrLost = errors.New("explore: the answer is lost")

// ErrRefused is the error of a [Call] that was not carried out.
var ErrRefused = errors.New("explore: the connection is refused")

// Call makes a call of something that replicas share, a database for example: work is what
// it does there, all of it or nothing. The scheduler decides when, and whether it fails with [ErrRefused],
// or with [ErrLost] after it was carried out.
func Call[T any](ctx context.Context, r *Replica, name string, work func() (T, error)) (T, error) {
	call := schedule.Spec{
		Name: r.w.shorten(name), Fates: []schedule.Fate{schedule.Refused, schedule.AnswerLost},
		Fail: func(f schedule.Fate) error {
			if f == schedule.Refused {
				return ErrRefused
			}
			return ErrLost
		},
	}
	return schedule.Do(ctx, r.process, call, work)
}

// webhooks brings the platform's webhooks to the replicas.
type webhooks struct{ w *World }

// RoundTrip implements [http.RoundTripper].
func (t webhooks) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.w.sender.Transport(receivers(t), t.w.tellWebhook).RoundTrip(r)
}

var (
	idPattern    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	eventPattern = regexp.MustCompile(`"event":\{[^{]*?"id":"([^"]+)"`)
)

func (w *World) tellWebhook(_ *http.Request, body []byte) string {
	if id := eventPattern.FindSubmatch(body); id != nil {
		return "webhook of event " + w.shorten(string(id[1]))
	}
	return "webhook"
}

// receivers are the replicas behind the address of the webhooks.
type receivers struct{ w *World }

// RoundTrip implements [http.RoundTripper].
func (t receivers) RoundTrip(r *http.Request) (*http.Response, error) {
	to := t.w.next()
	return to.process.Serve(to.handler, r, nil)
}

func (w *World) next() *Replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn++
	return w.receivers[w.turn%len(w.receivers)]
}
