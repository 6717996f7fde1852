package natskv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
)

// page is how many messages are asked for at a time.
const page = 500

// Purge implements [watermillinbox.Store]. Messages stand in the order in which
// they were written, so that it reads no further than to those that are old, and
// of these no more than the headers.
func (s *Store) Purge(ctx context.Context, before time.Time) error {
	for _, b := range []bucket{s.listed, s.kept} {
		if err := b.purge(ctx, before); err != nil {
			return fmt.Errorf("natskv: purge: %w", err)
		}
	}
	return nil
}

func (b bucket) purge(ctx context.Context, before time.Time) error {
	messages, err := b.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		HeadersOnly: true, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return err
	}
	defer func() {
		_ = b.stream.DeleteConsumer(context.WithoutCancel(ctx), messages.CachedInfo().Name)
	}()
	for {
		some, err := messages.FetchNoWait(page)
		if err != nil {
			return err
		}
		n := 0
		for m := range some.Messages() {
			n++
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			if !meta.Timestamp.Before(before) {
				return ctx.Err()
			}
			if m.Headers().Get(pastHeader) == "" {
				continue
			}
			if err := b.delete(ctx, meta.Sequence.Stream); err != nil && !errors.Is(err, watermillinbox.ErrConflict) {
				return err
			}
		}
		if err := errors.Join(some.Error(), ctx.Err()); err != nil || n == 0 {
			return err
		}
	}
}
