package watermillinbox

import (
	"cmp"
	"context"
	"errors"

	"github.com/dispensary-go/dispensary/webhook"
)

// Reseal implements [webhook.Resealer]. One process is enough.
func (i *Inbox) Reseal(ctx context.Context) (int, error) {
	aead, rotates := i.config.Seal.(webhook.RotatingAEAD)
	if !rotates {
		return 0, webhook.ErrNoRotator
	}
	for total := 0; ; {
		n, lost, err := i.resealAll(ctx, aead)
		total += n
		// Once more, until there is nothing to do: an event that was replayed
		// meanwhile has left one list for the other.
		if err != nil || n == 0 {
			return total, errors.Join(lost, err)
		}
	}
}

// resealAll looks at all that waits and at all dead letters. lost is the first
// error of what does not open; err is why it could not go on.
func (i *Inbox) resealAll(ctx context.Context, aead webhook.RotatingAEAD) (total int, lost, err error) {
	for kind, eventOf := range map[string]func(string) string{kindPending: eventAt, kindDead: eventOnList} {
		for key, err := range i.store.List(ctx, kind) {
			if err == nil && i.stopped() {
				err = webhook.ErrInboxClosed
			}
			if err != nil {
				return total, lost, err
			}
			n, unsealed, err := i.resealEvent(ctx, eventOf(key), aead)
			if err != nil {
				return total, lost, err
			}
			total, lost = total+n, cmp.Or(lost, unsealed)
		}
	}
	return total, lost, nil
}

// resealEvent writes an event with its sealed parts anew. It stays the event of the
// same Writer, so that whoever is handling it recognises it.
func (i *Inbox) resealEvent(ctx context.Context, id string, aead webhook.RotatingAEAD) (changed int, lost, err error) {
	for {
		e, err := i.event(ctx, id)
		if err != nil || e == nil || e.State == stateDone {
			return 0, nil, err
		}
		var key webhook.Key
		if err := key.UnmarshalText([]byte(e.Key)); err != nil {
			return 0, err, nil
		}
		body, failure, err := webhook.Reseal(aead, key, e.body, e.Err)
		if err != nil || body == nil {
			return 0, err, nil
		}
		e.body, e.Err = body, failure
		switch _, err = i.store.Update(ctx, e.entry()); {
		case err == nil:
			return 1, nil, nil
		case !errors.Is(err, ErrConflict):
			return 0, nil, err
		}
	}
}
