package integration

import (
	"context"
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration/doctor"
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

// existingInbox opens the inbox at an address, whose tables must exist. It neither accepts nor
// handles events.
func existingInbox(ctx context.Context, at address, keys *seal.KeyRing) (examinedInbox, error) {
	if err := exists(at); err != nil {
		return nil, err
	}
	failed := func(err error) (examinedInbox, error) {
		return nil, schemaError(fmt.Errorf("integration: inbox: %w", err))
	}
	if at.kind == sqlite {
		inbox, err := sqlinbox.OpenReader(at.name)
		if err != nil {
			return failed(err)
		}
		return inbox, nil
	}
	pool, err := newPool(ctx, at.name, 0)
	if err != nil {
		return failed(err)
	}
	inbox, err := riverinbox.New(ctx, pool, riverinbox.Config{
		Seal: keys,
		Work: webhook.Work{Handle: func(context.Context, events.Event) error { return errors.ErrUnsupported }},
	})
	if err != nil {
		pool.Close()
		return failed(err)
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
