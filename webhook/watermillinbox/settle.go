package watermillinbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// do makes the attempt that was claimed.
func (t *turn) do(j *job) {
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	stop := t.renew(cancel)
	// The error has been logged, and the event comes back when its lease ends.
	_ = t.worker.Do(ctx, j.task, func(a webhook.Attempt) error {
		stop()
		return t.settle(j, a)
	})
}

// settle notes the outcome of an attempt. It tries until that succeeds, or long
// enough: a handler's work that is done should not be done again because the
// store was away for a moment.
func (t *turn) settle(j *job, a webhook.Attempt) error {
	writer := rand.Text()
	end := time.Now().Add(t.config.margin)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := t.note(j, a, writer)
		if err == nil || errors.Is(err, errClaimLost) || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-t.ctx.Done():
			end = time.Time{} // once more, and no further
		}
	}
}

// note writes the outcome down. What decides is one write: to the event, if that
// ends its waiting, else to its place. It is refused where somebody else has been
// given the event, and has been faster.
func (t *turn) note(j *job, a webhook.Attempt, writer string) error {
	ctx, cancel := t.during()
	defer cancel()
	switch a.Result {
	case webhook.ResultReturned:
		return t.handOn()
	case webhook.ResultFailed:
		return t.noteFailure(ctx, j, a, writer)
	case webhook.ResultDead:
		return t.noteDeath(ctx, j, a, writer)
	}
	if a.Object != "" && a.Result == webhook.ResultHandled {
		if err := t.noteNewest(ctx, a); err != nil {
			return err
		}
	}
	done := *j.event
	done.State, done.Writer, done.body, done.Object = stateDone, writer, nil, ""
	return t.conclude(ctx, j, &done)
}

func (t *turn) noteFailure(ctx context.Context, j *job, a webhook.Attempt, writer string) error {
	p := *j.place
	p.Attempts, p.Due, p.Writer = a.Number, t.clock.now().Add(a.RetryIn).UnixMicro()+1, writer
	_, err := t.store.Update(ctx, p.entry())
	if errors.Is(err, ErrConflict) {
		var found map[string]Entry
		if found, err = t.store.Get(ctx, p.key); err != nil {
			return err
		}
		if now, read := pendingOf(found[p.key]); read != nil || now.Writer != writer {
			return errClaimLost
		}
	}
	return err
}

func (t *turn) noteDeath(ctx context.Context, j *job, a webhook.Attempt, writer string) error {
	now := t.clock.now()
	dead := *j.event
	dead.State, dead.Writer, dead.Died, dead.Attempts, dead.Reason = stateDead, writer, now.UnixMicro(), a.Number, a.Reason()
	dead.Letter = fmt.Sprintf("%s%s.%s", kindDead, sortable(now), dead.id())
	var err error
	if dead.Err, err = webhook.SealError(t.config.Seal, a.Key, a.Err); err != nil {
		dead.Err = nil // the reason will have to do
	}
	return t.conclude(ctx, j, &dead)
}

// conclude writes an event that does not wait any more, and clears its place and,
// if it was alone, its line. What is not cleared now is cleared by who finds it.
func (t *turn) conclude(ctx context.Context, j *job, e *event) error {
	if err := t.replaceEvent(ctx, j, e); err != nil {
		return err
	}
	if e.State == stateDead {
		if err := t.bury(ctx, e); err != nil {
			t.trouble("cannot list a dead letter yet", err)
			return nil // its place is still there, and so it will be
		}
	}
	left := []Entry{j.place.entry()}
	t.places = slices.DeleteFunc(t.places, func(key string) bool { return key == j.place.key })
	if t.alone() && t.lease != 0 {
		left = append(left, Entry{Key: kindLine + t.line, Revision: t.lease})
		t.lease = 0
	}
	if err := t.clear(ctx, left...); err != nil {
		t.trouble("cannot clear up yet", err)
	}
	return nil
}

// replaceEvent writes the event of a job as it is now, unless somebody else who was
// given it has been faster.
func (t *turn) replaceEvent(ctx context.Context, j *job, e *event) error {
	for {
		_, err := t.store.Update(ctx, e.entry())
		if !errors.Is(err, ErrConflict) {
			return err
		}
		now, err := t.event(ctx, e.id())
		switch {
		case err != nil:
			return err
		case now == nil || now.Writer != e.Writer && now.Writer != j.event.Writer:
			return errClaimLost
		case now.Writer == e.Writer:
			return nil // it was written, and the answer was lost
		}
		// It was only sealed anew.
		e.revision = now.revision
		if e.body != nil {
			e.body = now.body
		}
	}
}

// bury puts an event on the list of dead letters.
func (i *Inbox) bury(ctx context.Context, e *event) error {
	_, err := i.store.Create(ctx, Entry{Key: e.Letter, Value: []byte(e.id())})
	if errors.Is(err, ErrExists) {
		return nil
	}
	return err
}

// newest returns when the newest event of an object was created that was handled,
// and the revision of that note; zero if none was.
func (i *Inbox) newest(ctx context.Context, object webhook.Subject) (time.Time, uint64, error) {
	if object == "" {
		return time.Time{}, 0, nil
	}
	key := kindNewest + digest(string(object))
	found, err := i.store.Get(ctx, key)
	if err != nil || len(found) == 0 {
		return time.Time{}, 0, err
	}
	var at int64
	err = decode(found[key].Value, &at)
	return micro(at), found[key].Revision, err
}

// noteNewest notes that an object is as new as an event of it. It comes before the
// event's own outcome: an event is not stale by its own time.
func (t *turn) noteNewest(ctx context.Context, a webhook.Attempt) error {
	for {
		at, revision, err := t.newest(ctx, a.Object)
		if err != nil || revision != 0 && !a.CreatedAt.After(at) {
			return err
		}
		entry := Entry{
			Key: kindNewest + digest(string(a.Object)), Value: encode(a.CreatedAt.UnixMicro()), Revision: revision, Past: true,
		}
		if revision == 0 {
			_, err = t.store.Create(ctx, entry)
		} else {
			_, err = t.store.Update(ctx, entry)
		}
		if !errors.Is(err, ErrExists) && !errors.Is(err, ErrConflict) {
			return err
		}
	}
}
