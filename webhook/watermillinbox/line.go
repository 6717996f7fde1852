package watermillinbox

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// longestRun is how many events of a line are handled before others have their
// turn.
const longestRun = 64

// turn is the stay of a worker at a line. Others are kept out by the line's entry,
// a lease that is renewed as long as a handler runs.
type turn struct {
	*Inbox
	line  string
	hint  string // the place that we were told of, if any
	claim claim
	lease uint64 // revision of the line's entry; 0 if it is not ours

	before claim    // of whoever did not come back
	found  *pending // the place that entering has read
	places []string // the first of the line, as they were listed
	more   bool     // behind those
	sure   bool     // that nothing has come since they were listed
}

// alone reports the line of an event that waits for nobody.
func (t *turn) alone() bool { return alone(t.line) }

// workOff handles what is due of a line, the oldest first, unless somebody else
// is at it, or the place that hint names is done; taken is called as soon as that
// is certain. Its errors are those of the store, before anything was begun.
func (i *Inbox) workOff(line, hint string, taken func()) error {
	t := &turn{Inbox: i, line: line, hint: hint, claim: claim{Holder: i.name + rand.Text()}}
	if t.alone() {
		t.hint = onlyPlace(line)
	}
	for run := 0; ; run++ {
		if i.stopped() || run == longestRun {
			return t.handOn()
		}
		j, err := t.next()
		if err != nil {
			return errors.Join(err, t.release())
		}
		taken()
		if j == nil {
			return nil
		}
		t.do(j)
		if t.lease == 0 && t.alone() {
			return nil
		}
	}
}

// handOn leaves a line in which events may wait.
func (t *turn) handOn() error {
	if t.lease == 0 {
		return nil
	}
	err := t.release()
	ctx, cancel := t.during()
	defer cancel()
	t.ring(ctx, kindPending+t.line)
	return err
}

// job is an event that was claimed.
type job struct {
	place *pending
	event *event
	task  webhook.Task
}

// next claims the first event of the line, if it is due. If there is none, the
// line is left: nil.
func (t *turn) next() (*job, error) {
	ctx, cancel := t.during()
	defer cancel()
	for {
		if t.lease == 0 {
			if err := t.enter(ctx); err != nil || t.lease == 0 {
				return nil, err
			}
		}
		first, err := t.first(ctx)
		if err != nil {
			return nil, err
		}
		if wait, leave := t.wait(first); leave {
			// An event may have come of which we do not know: who was told of it
			// has relied on us.
			gone, err := t.quit(ctx)
			if err != nil {
				return nil, err
			}
			if gone {
				t.lookAgainIn(wait)
				return nil, nil
			}
			continue
		}
		if j, err := t.take(ctx, first); err != nil || j != nil {
			return j, err
		}
		if t.lease == 0 {
			return nil, nil
		}
	}
}

// enter makes the line ours, unless somebody else is at it or has been, and there
// is nothing left that is due.
func (t *turn) enter(ctx context.Context) error {
	entry := kindLine + t.line
	keys := []string{entry}
	if t.hint != "" {
		keys = append(keys, t.hint)
	}
	found, err := t.store.Get(ctx, keys...)
	if err != nil {
		return err
	}
	current, held := found[entry]
	t.before = claim{}
	if held && decode(current.Value, &t.before) == nil && t.before.Until > t.clock.micro() {
		t.lookAgainIn(micros(t.before.Until - t.clock.micro()))
		return nil
	}
	place, there := found[t.hint]
	if t.hint != "" && !there {
		return nil
	}
	t.claim.Pending, t.claim.Attempt = t.before.Pending, t.before.Attempt
	if t.alone() {
		if t.found, err = pendingOf(place); err != nil {
			return err
		}
		if wait, leave := t.wait(t.found); leave {
			t.lookAgainIn(wait)
			return nil
		}
		t.claim.Pending, t.claim.Attempt = t.found.key, t.attempt(t.found)
	}
	t.hint = ""
	held, err = t.hold(ctx, current.Revision)
	if err == nil && !held { // somebody is at it, or has only touched what a crash has left
		t.lookAgainIn(time.Second)
	}
	return err
}

// first returns the first place of the line, nil if there is none.
func (t *turn) first(ctx context.Context) (*pending, error) {
	if p := t.found; p != nil {
		t.found = nil
		return p, nil
	}
	if err := t.list(ctx); err != nil {
		return nil, err
	}
	for ; len(t.places) > 0; t.places = t.places[1:] {
		found, err := t.store.Get(ctx, t.places[0])
		if err != nil {
			return nil, err
		}
		if entry, ok := found[t.places[0]]; ok {
			return pendingOf(entry)
		}
	}
	if t.more {
		return t.first(ctx)
	}
	return nil, nil
}

// list finds the first places of the line, unless they are known.
func (t *turn) list(ctx context.Context) error {
	switch {
	case t.alone():
		t.places = []string{onlyPlace(t.line)}
		return nil
	case t.sure && (len(t.places) > 0 || !t.more):
		return nil
	}
	t.places, t.sure, t.more = nil, true, false
	for key, err := range t.store.List(ctx, kindPending+t.line+".") {
		if err != nil {
			t.sure = false
			return err
		}
		if t.more = len(t.places) == longestRun; t.more {
			break
		}
		t.places = append(t.places, key)
	}
	return nil
}

// wait says whether the line is to be left, and when it is to be looked at again:
// never, if wait is 0.
func (t *turn) wait(first *pending) (wait time.Duration, leave bool) {
	now := t.clock.micro()
	switch {
	case first == nil:
		return 0, true
	case first.Due > now:
		return micros(first.Due - now), true
	}
	return 0, false
}

func micros(n int64) time.Duration { return time.Duration(n+1) * time.Microsecond }

// lookAgainIn has this process look after the line. What takes longer is found by
// a sweep.
func (t *turn) lookAgainIn(wait time.Duration) {
	if wait > 0 && wait <= 2*t.config.Sweep {
		t.queue.addIn(t.line, wait)
	}
}

// attempt returns the number of the attempt that is due: after the attempt whose
// worker did not come back, which counts, or after the last that was noted.
func (t *turn) attempt(p *pending) int {
	if t.before.Pending == p.key {
		return max(p.Attempts, t.before.Attempt) + 1
	}
	return p.Attempts + 1
}

// take writes down who is at the line and with what, and then reads the event: nil
// if there is nothing to be done with it. Attempts are counted now and not at
// their end, which may not come.
func (t *turn) take(ctx context.Context, first *pending) (*job, error) {
	attempt := t.attempt(first)
	abandoned := attempt > first.Attempts+1
	if t.claim.Pending != first.key || t.claim.Attempt != attempt {
		t.claim.Pending, t.claim.Attempt = first.key, attempt
		if held, err := t.hold(ctx, 0); err != nil || !held {
			return nil, err
		}
	}
	// Only now is it certain what is read: whoever was here before is gone.
	eventKey := kindEvent + first.Event
	found, err := t.store.Get(ctx, first.key, eventKey)
	if err != nil {
		return nil, err
	}
	if now, ok := found[first.key]; !ok || now.Revision != first.revision {
		t.sure = false
		return nil, nil
	}
	entry, ok := found[eventKey]
	if !ok {
		return nil, t.orphan(ctx, first)
	}
	e, err := eventOf(entry)
	if err != nil {
		return nil, err
	}
	if e.State != stateWaiting || e.Pending != first.key {
		return nil, t.mend(ctx, first, e)
	}
	j := &job{place: first, event: e, task: webhook.Task{Attempt: attempt, Object: e.Object}}
	j.task.Delivery, j.task.Err = t.delivery(e)
	if abandoned && attempt > t.worker.Work().Retry.MaxAttempts {
		j.task.Attempt, j.task.Err = attempt-1, webhook.ErrAbandoned
	}
	j.task.Newest, _, err = t.newest(ctx, e.Object)
	return j, err
}

// orphan deals with a place whose event does not wait: not yet, or never.
func (t *turn) orphan(ctx context.Context, p *pending) error {
	t.sure = false
	if age := t.clock.now().Sub(micro(p.Since)); age > orphanAge {
		return t.clear(ctx, p.entry())
	}
	t.queue.addIn(t.line, time.Second)
	return t.release()
}

// mend ends what a crash has left half done.
func (t *turn) mend(ctx context.Context, p *pending, e *event) error {
	t.sure = false
	if e.State == stateDead {
		if p.Since > e.Died { // it is being replayed
			return t.orphan(ctx, p)
		}
		if err := t.bury(ctx, e); err != nil {
			return err
		}
	}
	return t.clear(ctx, p.entry())
}
