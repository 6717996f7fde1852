package memoryinbox

import (
	"context"
	"time"

	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

var _ reconcile.Inbox = (*Inbox)(nil)

// Missing implements [reconcile.Inbox]. It also returns keys that the inbox dropped because of
// Config.MaxKeys.
func (i *Inbox) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return nil, webhook.ErrInboxClosed
	}
	return inboxkit.Missing(keys, func(key webhook.Key) bool { return i.entries[key] != nil || i.finished.has(key) }), nil
}

// ClaimCheckpoint implements [reconcile.Inbox].
func (i *Inbox) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed && ctx.Err() == nil {
		return nil, webhook.ErrInboxClosed
	}
	return i.checkpoints.ClaimCheckpoint(ctx, name, holder, ttl)
}

// SaveCheckpoint implements [reconcile.Inbox].
func (i *Inbox) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed && ctx.Err() == nil {
		return webhook.ErrInboxClosed
	}
	return i.checkpoints.SaveCheckpoint(ctx, name, holder, state, ttl)
}

// ReadCheckpoint returns the last saved state, or nil if there is none. It does not claim the
// checkpoint.
func (i *Inbox) ReadCheckpoint(ctx context.Context, name string) ([]byte, error) {
	return i.checkpoints.ReadCheckpoint(ctx, name)
}

// ReleaseCheckpoint implements [reconcile.Inbox]. It also works on a closed inbox.
func (i *Inbox) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return i.checkpoints.ReleaseCheckpoint(ctx, name, holder)
}
