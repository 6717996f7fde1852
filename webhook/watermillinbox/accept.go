package watermillinbox

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// orphanAge is after how long a place whose event never came is given up. Who
// took half of that to store both makes sure of the place.
const orphanAge = 2 * time.Minute

// Accept implements [webhook.Inbox]: when it returns, the event is in the store,
// and the broker has been told, unless it does not answer: then this process
// handles the event. It fails with [webhook.ErrInboxClosed], with that of ctx,
// and with errors of the store, which hold nothing of the event.
func (i *Inbox) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return webhook.Receipt{}, err
	}
	if i.stopped() {
		return webhook.Receipt{}, webhook.ErrInboxClosed
	}
	e, place, err := i.newEvent(d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	// The place before the event: of whatever is known to have been accepted, it
	// is known that it is to be handled.
	_, err = i.store.Create(ctx, place.entry(), e.entry())
	switch {
	case errors.Is(err, ErrExists):
		return i.again(ctx, e, place)
	case err != nil:
		return webhook.Receipt{}, err
	}
	if i.clock.now().Sub(micro(place.Since)) > orphanAge/2 {
		if err := i.place(ctx, place); err != nil {
			return webhook.Receipt{}, err
		}
	}
	i.announce(ctx, place.key)
	return webhook.Receipt{}, nil
}

// newEvent makes the entries of an event that is to be handled.
func (i *Inbox) newEvent(d webhook.Delivery) (*event, *pending, error) {
	text, err := d.Key.MarshalText()
	if err != nil {
		return nil, nil, err
	}
	subject, object := i.worker.Subjects(d)
	e := &event{
		Key: string(text), Type: string(d.Type), ClinicID: d.ClinicID, Received: d.ReceivedAt.UnixMicro(),
		Object: object, State: stateWaiting, Writer: rand.Text(),
	}
	if !d.CreatedAt.IsZero() {
		at := d.CreatedAt.UnixMicro()
		e.Created = &at
	}
	e.Pending = pendingKey(lineOf(subject, e.id()), e.id(), d)
	e.body, err = webhook.SealBody(i.config.Seal, d.Key, d.Body)
	return e, i.placeOf(e), err
}

// placeOf makes the place of an event that is due at once.
func (i *Inbox) placeOf(e *event) *pending {
	now := i.clock.micro()
	return &pending{key: e.Pending, Event: e.id(), Since: now, Due: now}
}

// place stores a place that may be there already.
func (i *Inbox) place(ctx context.Context, p *pending) error {
	if _, err := i.store.Create(ctx, p.entry()); err != nil && !errors.Is(err, ErrExists) {
		return err
	}
	return nil
}

// again finds out what was there already: the event, or only a place that a
// crash has left. An event that waits is told of once more, as its first accept
// may have ended before that.
func (i *Inbox) again(ctx context.Context, e *event, place *pending) (webhook.Receipt, error) {
	there, err := i.event(ctx, e.id())
	if err != nil {
		return webhook.Receipt{}, err
	}
	switch {
	case there == nil: // it was purged this moment: the platform tries again
		return webhook.Receipt{}, ErrConflict
	case there.Writer != e.Writer:
		if err := i.tidy(ctx, place.key); err != nil {
			return webhook.Receipt{}, err
		}
	}
	if there.State == stateWaiting {
		if err := i.place(ctx, i.placeOf(there)); err != nil {
			return webhook.Receipt{}, err
		}
		i.announce(ctx, there.Pending)
	}
	return webhook.Receipt{Duplicate: there.Writer != e.Writer}, nil
}

// tidy deletes a place that is not, or no longer, that of an event which waits.
// The place is read first: whoever brings an event back writes its place anew.
func (i *Inbox) tidy(ctx context.Context, key string) error {
	places, err := i.store.Get(ctx, key)
	if err != nil || len(places) == 0 {
		return err
	}
	p, err := pendingOf(places[key])
	if err != nil {
		return err
	}
	e, err := i.event(ctx, p.Event)
	if err != nil || e == nil || e.State == stateWaiting && e.Pending == key {
		return err
	}
	return i.clear(ctx, p.entry())
}

// clear deletes entries, but for those that somebody else has deleted or changed.
func (i *Inbox) clear(ctx context.Context, entries ...Entry) error {
	if err := i.store.Delete(ctx, entries...); !errors.Is(err, ErrConflict) {
		return err
	}
	return nil
}

// event returns an event, nil if it is not known.
func (i *Inbox) event(ctx context.Context, id string) (*event, error) {
	found, err := i.store.Get(ctx, kindEvent+id)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return eventOf(found[kindEvent+id])
}
