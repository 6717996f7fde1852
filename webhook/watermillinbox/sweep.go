package watermillinbox

import (
	"context"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

const (
	// batch is how many entries are read at a time.
	batch = 100

	// maxQueue is how many lines a sweep finds: what is more is there the next
	// time.
	maxQueue = 10_000
)

// sweeps searches the store for what the broker has lost and for what is due
// again, again and again. So a broker may lose and repeat what it likes.
func (i *Inbox) sweeps() {
	for {
		select {
		case <-time.After(i.config.Sweep):
		case <-i.running.Done():
			return
		}
		ctx, cancel := context.WithTimeout(i.running, time.Minute)
		if err := i.sweep(ctx, i.config.Sweep); err != nil {
			i.trouble("cannot sweep", err)
		}
		cancel()
	}
}

// sweep puts lines whose first event is due in the queue. An event that nobody
// has tried has grace, because its message is likely to be on its way.
func (i *Inbox) sweep(ctx context.Context, grace time.Duration) error {
	if err := i.clock.set(ctx); err != nil {
		return err
	}
	var last string
	var keys []string
	for key, err := range i.store.List(ctx, kindPending) {
		if err != nil {
			return err
		}
		line := lineIn(key)
		if line == last || i.queue.plans(line) {
			last = line
			continue
		}
		last = line
		if keys = append(keys, key); len(keys) == batch {
			if err := i.enqueue(ctx, keys, grace); err != nil {
				return err
			}
			keys = keys[:0]
		}
		if i.stopped() || i.queue.len() > maxQueue {
			return nil
		}
	}
	return i.enqueue(ctx, keys, grace)
}

// enqueue plans the lines of places.
func (i *Inbox) enqueue(ctx context.Context, keys []string, grace time.Duration) error {
	found, err := i.store.Get(ctx, keys...)
	if err != nil {
		return err
	}
	now := i.clock.now()
	for _, key := range keys {
		p, err := pendingOf(found[key])
		if err != nil {
			continue // it is done
		}
		due := micro(p.Due)
		if p.Attempts == 0 {
			due = due.Add(grace)
		}
		switch wait := due.Sub(now); {
		case wait <= 0:
			i.queue.add(lineIn(key))
		case wait <= 2*i.config.Sweep:
			i.queue.addIn(lineIn(key), wait)
		}
	}
	return nil
}

// retain deletes, every hour, the keys of what was handled long ago.
func (i *Inbox) retain() {
	for {
		ctx, cancel := context.WithTimeout(i.running, 10*time.Minute)
		if err := i.store.Purge(ctx, i.clock.now().Add(-i.config.Retention)); err != nil {
			i.trouble("cannot purge", err)
		}
		cancel()
		select {
		case <-time.After(time.Hour):
		case <-i.running.Done():
			return
		}
	}
}

// Stats implements [webhook.Engine]. What is being handled counts as waiting, and it
// reads as many entries as there are.
func (i *Inbox) Stats(ctx context.Context) (webhook.Stats, error) {
	var s webhook.Stats
	if i.stopped() {
		return s, webhook.ErrInboxClosed
	}
	var places []string
	for key, err := range i.store.List(ctx, kindPending) {
		if err != nil {
			return webhook.Stats{}, err
		}
		places = append(places, key)
	}
	for some := range slices.Chunk(places, batch) {
		found, err := i.store.Get(ctx, some...)
		if err != nil {
			return webhook.Stats{}, err
		}
		for _, entry := range found {
			p, err := pendingOf(entry)
			if err != nil {
				return webhook.Stats{}, err
			}
			s.Waiting++
			if since := micro(p.Since); s.Oldest.IsZero() || since.Before(s.Oldest) {
				s.Oldest = since
			}
		}
	}
	for _, err := range i.store.List(ctx, kindDead) {
		if err != nil {
			return webhook.Stats{}, err
		}
		s.Dead++
	}
	return s, nil
}
