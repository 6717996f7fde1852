package integration

import (
	"context"
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// Maintenance is what operators do with an inbox, beside the processes that have it open.
// The methods are those of [engine.Engine].
type Maintenance interface {
	List(ctx context.Context, filter engine.Filter, after engine.Position, limit int) ([]engine.Event, error)
	Count(ctx context.Context, filter engine.Filter, most int) (engine.Counts, error)
	Replay(ctx context.Context, filter engine.Filter) (int, error)
	Discard(ctx context.Context, filter engine.Filter) (int, error)
	Stats(ctx context.Context) (engine.Stats, error)
	Close(ctx context.Context) error
}

// OpenMaintenance opens the inbox that Config.Inbox names, for tools of operators: it
// neither accepts nor handles events, makes no tables, and needs no keys as it reads no
// bodies. Nothing else of the configuration is looked at.
//
// Errors: an [*dispensary.ArgumentError] for the address, also for one in memory, which
// only its own process has; [*sqlinbox.SchemaError] and [riverinbox.ErrSchema] if there is no
// inbox; errors of the database.
func OpenMaintenance(ctx context.Context, config Config) (Maintenance, error) {
	// Nothing is sealed or opened.
	return openMaintenance(ctx, config, seal.InsecurePlaintext{})
}

func openMaintenance(ctx context.Context, config Config, keys seal.AEAD) (Maintenance, error) {
	at, problem := parseAddress(config.Inbox, []kind{postgres, sqlite, memory})
	if problem == "" && at.kind == memory {
		problem = "is in memory, which only its own process has"
	}
	if problem != "" {
		return nil, &dispensary.ArgumentError{Field: config.name("inbox"), Reason: problem}
	}
	if at.kind == sqlite {
		inbox, err := sqlinbox.OpenMaintenance(at.name)
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
