package memoryinbox

import (
	"context"
	"iter"
	"slices"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// DeadLetters implements [engine.Engine].
func (i *Inbox) DeadLetters(ctx context.Context) iter.Seq2[engine.DeadLetter, error] {
	return func(yield func(engine.DeadLetter, error) bool) {
		for _, deadLetter := range i.deadLetters() {
			if err := ctx.Err(); err != nil {
				yield(engine.DeadLetter{}, err)
				return
			}
			if !yield(deadLetter, nil) {
				return
			}
		}
	}
}

func (i *Inbox) deadLetters() []engine.DeadLetter {
	i.mu.Lock()
	defer i.mu.Unlock()
	var all []engine.DeadLetter
	for _, e := range i.held {
		if e.deadLetter != nil {
			all = append(all, *e.deadLetter)
		}
	}
	slices.SortFunc(all, func(a, b engine.DeadLetter) int { return a.DiedAt.Compare(b.DiedAt) })
	return all
}

// Replay implements [engine.Engine].
func (i *Inbox) Replay(ctx context.Context, key webhook.Key) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	e := i.held[key]
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case i.closed:
		return webhook.ErrInboxClosed
	case e == nil || e.deadLetter == nil:
		return webhook.ErrNoDeadLetter
	}
	e.deadLetter, e.attempts = nil, 0
	i.enqueue(e)
	return nil
}

// Discard implements [engine.Engine]. It works on a closed inbox too.
func (i *Inbox) Discard(ctx context.Context, key webhook.Key) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	e := i.held[key]
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case e == nil || e.deadLetter == nil:
		return webhook.ErrNoDeadLetter
	}
	i.drop(e)
	return nil
}

// Stats implements [engine.Engine].
func (i *Inbox) Stats(ctx context.Context) (engine.Stats, error) {
	var s engine.Stats
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return s, ctx.Err()
	case i.closed:
		return s, webhook.ErrInboxClosed
	}
	for _, e := range i.held {
		switch {
		case e.deadLetter != nil:
			s.Dead++
			continue
		case e.running:
			s.Running++
		default:
			s.Waiting++
		}
		if at := e.delivery.ReceivedAt; s.Oldest.IsZero() || at.Before(s.Oldest) {
			s.Oldest = at
		}
	}
	return s, nil
}
