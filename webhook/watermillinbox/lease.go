package watermillinbox

import (
	"context"
	"errors"
	"sync"
	"time"
)

// hold makes the line ours, or keeps it so. It takes the place of an entry with
// the given revision, if there is one. If somebody else was faster, or an event has
// come, it reports false; then lease says whether the line is ours.
func (t *turn) hold(ctx context.Context, revision uint64) (bool, error) {
	t.claim.Until = t.clock.now().Add(t.config.Lease).UnixMicro()
	// Past: what a crash leaves of a line to which nobody comes is purged.
	entry := Entry{Key: kindLine + t.line, Value: encode(t.claim), Revision: max(t.lease, revision), Past: true}
	revisions := []uint64{0}
	var err error
	if entry.Revision == 0 {
		revisions, err = t.store.Create(ctx, entry)
	} else {
		revisions[0], err = t.store.Update(ctx, entry)
	}
	switch {
	case err == nil:
		t.lease = revisions[0]
		return true, nil
	case errors.Is(err, ErrConflict) && t.lease != 0:
		return false, t.recognize(ctx)
	case errors.Is(err, ErrExists) || errors.Is(err, ErrConflict):
		return false, nil
	}
	return false, err
}

// recognize finds out whether the line is still ours: somebody may have touched
// it, or an answer was lost.
func (t *turn) recognize(ctx context.Context) error {
	found, err := t.store.Get(ctx, kindLine+t.line)
	if err != nil {
		return err
	}
	var now claim
	entry, ok := found[kindLine+t.line]
	if !ok || decode(entry.Value, &now) != nil || now.Holder != t.claim.Holder {
		t.lease, t.sure = 0, false
		return nil
	}
	t.lease, t.sure, t.claim.Touched = entry.Revision, false, now.Touched
	return nil
}

// touch lets whoever is at a line know that an event has come.
func (i *Inbox) touch(ctx context.Context, line string) error {
	for seen := -1; ; {
		found, err := i.store.Get(ctx, kindLine+line)
		if err != nil || len(found) == 0 {
			return err
		}
		var c claim
		entry := found[kindLine+line]
		if err := decode(entry.Value, &c); err != nil {
			return err
		}
		if c.Until <= i.clock.micro() || seen >= 0 && c.Touched != seen {
			return nil // nobody is, or it was touched for another event, after ours had come
		}
		seen, c.Touched = c.Touched, c.Touched+1
		entry.Value, entry.Past = encode(c), true
		if _, err = i.store.Update(ctx, entry); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// quit lets others at the line, unless an event has come.
func (t *turn) quit(ctx context.Context) (gone bool, err error) {
	err = t.store.Delete(ctx, Entry{Key: kindLine + t.line, Revision: t.lease})
	if errors.Is(err, ErrConflict) {
		err = t.recognize(ctx)
	} else if err == nil {
		t.lease, t.sure = 0, false
	}
	return t.lease == 0, err
}

// release lets others at the line.
func (t *turn) release() error {
	ctx, cancel := t.during()
	defer cancel()
	for t.lease != 0 {
		if _, err := t.quit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// renew keeps the line ours until the returned function is called, but no longer
// than a handler may take. Whoever finds that it is not ours any more is told by
// lost.
func (t *turn) renew(lost func()) (stop func()) {
	end := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() {
		longest := time.Now().Add(t.worker.Work().HandlerTimeout + t.config.margin)
		ticker := time.NewTicker(t.config.Lease / 3)
		defer ticker.Stop()
		for time.Now().Before(longest) {
			select {
			case <-end:
				return
			case <-ticker.C:
			}
			if !t.renewOnce() {
				lost()
				return
			}
		}
	})
	return func() {
		close(end)
		renewing.Wait()
	}
}

// renewOnce reports whether the line may still be ours.
func (t *turn) renewOnce() bool {
	ctx, cancel := context.WithTimeout(context.Background(), t.config.Lease/3)
	defer cancel()
	for {
		held, err := t.hold(ctx, 0)
		if held || err != nil || t.lease == 0 {
			return t.lease != 0
		}
	}
}
