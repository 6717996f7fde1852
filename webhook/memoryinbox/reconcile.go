package memoryinbox

import (
	"bytes"
	"context"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

var _ reconcile.Inbox = (*Inbox)(nil)

// checkpoint is what an [Inbox] keeps under the name of a checkpoint.
type checkpoint struct {
	state  []byte
	holder string
	until  time.Time
}

func (c *checkpoint) heldBy(holder string) bool {
	return c != nil && c.holder == holder && c.until.After(time.Now())
}

// Missing implements [reconcile.Inbox]. Keys beyond Config.MaxKeys have been
// forgotten, and are missing.
func (i *Inbox) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return nil, webhook.ErrInboxClosed
	}
	var missing []webhook.Key
	asked := make(map[webhook.Key]bool, len(keys))
	for _, key := range keys {
		if !asked[key] && i.held[key] == nil && !i.handled.has(key) {
			missing = append(missing, key)
		}
		asked[key] = true
	}
	return missing, nil
}

// ClaimCheckpoint implements [reconcile.Checkpoints].
func (i *Inbox) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	c := i.checkpoints[name]
	switch {
	case i.closed:
		return nil, webhook.ErrInboxClosed
	case c == nil:
		c = &checkpoint{}
		i.checkpoints[name] = c
	case c.holder != holder && c.until.After(time.Now()):
		return nil, reconcile.ErrCheckpointHeld
	}
	c.holder, c.until = holder, time.Now().Add(ttl)
	return bytes.Clone(c.state), nil
}

// SaveCheckpoint implements [reconcile.Checkpoints].
func (i *Inbox) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	c := i.checkpoints[name]
	switch {
	case i.closed:
		return webhook.ErrInboxClosed
	case !c.heldBy(holder):
		return reconcile.ErrCheckpointHeld
	}
	c.state, c.until = bytes.Clone(state), time.Now().Add(ttl)
	return nil
}

// ReleaseCheckpoint implements [reconcile.Checkpoints].
func (i *Inbox) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if c := i.checkpoints[name]; c.heldBy(holder) {
		c.until = time.Time{}
	}
	return nil
}
