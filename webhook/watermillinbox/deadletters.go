package watermillinbox

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"strings"

	"github.com/dispensary-go/dispensary/webhook"
)

// DeadLetters implements [webhook.Engine]. What dies while it lists may be listed
// or not.
func (i *Inbox) DeadLetters(ctx context.Context) iter.Seq2[webhook.DeadLetter, error] {
	return func(yield func(webhook.DeadLetter, error) bool) {
		if i.stopped() {
			yield(webhook.DeadLetter{}, webhook.ErrInboxClosed)
			return
		}
		for key, err := range i.store.List(ctx, kindDead) {
			var letter webhook.DeadLetter
			var listed bool
			if err == nil {
				letter, listed, err = i.letter(ctx, key)
			}
			if err != nil {
				yield(webhook.DeadLetter{}, err)
				return
			}
			if listed && !yield(letter, nil) {
				return
			}
		}
	}
}

// letter reads a dead letter. One that a crash has left in the list, though it
// was replayed or discarded, is taken off it.
func (i *Inbox) letter(ctx context.Context, key string) (letter webhook.DeadLetter, listed bool, err error) {
	e, err := i.event(ctx, eventOnList(key))
	if err != nil {
		return letter, false, err
	}
	if e == nil || e.State != stateDead || e.Letter != key {
		return letter, false, i.unlist(ctx, key)
	}
	letter.Attempts, letter.Reason, letter.DiedAt = e.Attempts, e.Reason, micro(e.Died)
	letter.Delivery, letter.Err = i.delivery(e)
	if letter.Err == nil {
		letter.Err = webhook.OpenError(i.config.Seal, letter.Key, e.Err)
	}
	return letter, true, nil
}

// eventOnList returns the event that a key of the list is of.
func eventOnList(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// unlist takes a dead letter off the list. A key of the list is never used twice.
func (i *Inbox) unlist(ctx context.Context, key string) error {
	found, err := i.store.Get(ctx, key)
	if err != nil || len(found) == 0 {
		return err
	}
	return i.clear(ctx, found[key])
}

// Replay implements [webhook.Engine].
func (i *Inbox) Replay(ctx context.Context, key webhook.Key) error {
	var place string
	err := i.revise(ctx, key, func(e *event) error {
		e.State, e.Died, e.Attempts, e.Reason, e.Err = stateWaiting, 0, 0, "", nil
		place = e.Pending
		return i.replace(ctx, i.placeOf(e))
	})
	if err == nil {
		i.announce(ctx, place)
	}
	return err
}

// replace writes a place anew, so that nobody deletes it as the one it was.
func (i *Inbox) replace(ctx context.Context, p *pending) error {
	p.Writer = rand.Text()
	for {
		_, err := i.store.Create(ctx, p.entry())
		if !errors.Is(err, ErrExists) {
			return err
		}
		found, err := i.store.Get(ctx, p.key)
		if err != nil {
			return err
		}
		if there, ok := found[p.key]; ok {
			p.revision = there.Revision
			if _, err = i.store.Update(ctx, p.entry()); !errors.Is(err, ErrConflict) {
				return err
			}
		}
	}
}

// Discard implements [webhook.Engine].
func (i *Inbox) Discard(ctx context.Context, key webhook.Key) error {
	return i.revise(ctx, key, func(e *event) error {
		e.State, e.Err, e.body, e.Object = stateDone, nil, nil, ""
		return nil
	})
}

// revise changes a dead letter, again if it was sealed anew meanwhile.
func (i *Inbox) revise(ctx context.Context, key webhook.Key, change func(*event) error) error {
	for {
		if i.stopped() {
			return webhook.ErrInboxClosed
		}
		e, err := i.event(ctx, eventID(key))
		if err != nil {
			return err
		}
		if e == nil || e.State != stateDead {
			return webhook.ErrNoDeadLetter // or somebody else was faster
		}
		letter := e.Letter
		e.Letter, e.Writer = "", rand.Text()
		if err := change(e); err != nil {
			return err
		}
		_, err = i.store.Update(ctx, e.entry())
		switch {
		case errors.Is(err, ErrConflict):
			continue
		case err != nil:
			return err
		}
		if err := i.unlist(ctx, letter); err != nil {
			i.trouble("cannot take a dead letter off the list yet", err) // who lists them does
		}
		return nil
	}
}
