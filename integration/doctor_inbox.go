package integration

import (
	"context"
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/doctor"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// examinedInbox is an inbox beside the processes that have it open.
type examinedInbox interface {
	doctor.Inbox
	Close(ctx context.Context) error
}

// openExaminedInbox opens the inbox at an address. It neither accepts nor handles events, and
// makes no tables.
func openExaminedInbox(ctx context.Context, at address, keys seal.AEAD) (examinedInbox, error) {
	if at.kind == sqlite {
		inbox, err := sqlinbox.OpenReader(at.name)
		if err != nil {
			return nil, fmt.Errorf("integration: inbox: %w", err)
		}
		return inbox, nil
	}
	pool, err := newPool(ctx, at.name, 0)
	if err != nil {
		return nil, fmt.Errorf("integration: inbox: %w", err)
	}
	inbox, err := riverinbox.New(ctx, pool, riverinbox.Config{
		// Nothing is handled: the inbox is added to no client of River.
		Seal: keys,
		Work: webhook.Work{Handle: func(context.Context, events.Event) error { return errors.ErrUnsupported }},
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("integration: inbox: %w", err)
	}
	return pooledInbox{inbox, closePool(pool)}, nil
}

// pooledInbox is an inbox whose database is closed with it.
type pooledInbox struct {
	*riverinbox.Inbox
	pool closer
}

// Close closes the inbox and its pool.
func (p pooledInbox) Close(ctx context.Context) error {
	if err := p.Inbox.Close(ctx); err != nil {
		return err
	}
	return p.pool(ctx)
}
