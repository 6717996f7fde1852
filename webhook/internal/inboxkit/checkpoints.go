package inboxkit

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// MemoryCheckpoints implements the checkpoints of a [reconcile.Inbox] in the memory of one
// process. The zero value is ready to use.
type MemoryCheckpoints struct {
	mu     sync.Mutex
	byName map[string]*memoryCheckpoint
}

type memoryCheckpoint struct {
	state  []byte
	holder string
	until  time.Time
}

func (c *memoryCheckpoint) heldBy(holder string) bool {
	return c != nil && c.holder == holder && time.Now().Before(c.until)
}

// ClaimCheckpoint implements [reconcile.Inbox].
func (m *MemoryCheckpoints) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.byName == nil {
		m.byName = map[string]*memoryCheckpoint{}
	}
	c := m.byName[name]
	if c == nil {
		c = &memoryCheckpoint{}
		m.byName[name] = c
	}
	if c.holder != holder && time.Now().Before(c.until) {
		return nil, engine.ErrCheckpointHeld
	}
	c.holder, c.until = holder, time.Now().Add(ttl)
	return bytes.Clone(c.state), nil
}

// SaveCheckpoint implements [reconcile.Inbox].
func (m *MemoryCheckpoints) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.byName[name]
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !c.heldBy(holder):
		return engine.ErrCheckpointHeld
	}
	c.state, c.until = bytes.Clone(state), time.Now().Add(ttl)
	return nil
}

// ReadCheckpoint returns the last saved state, or nil. It claims nothing.
func (m *MemoryCheckpoints) ReadCheckpoint(ctx context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.byName[name]; c != nil {
		return bytes.Clone(c.state), ctx.Err()
	}
	return nil, ctx.Err()
}

// ReleaseCheckpoint implements [reconcile.Inbox]. It ignores the end of ctx.
func (m *MemoryCheckpoints) ReleaseCheckpoint(_ context.Context, name, holder string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.byName[name]; c.heldBy(holder) {
		c.until = time.Time{}
	}
	return nil
}

// Missing returns the unknown keys in their order, without duplicates. It implements Missing
// of reconcile.Inbox.
func Missing(keys []webhook.Key, known func(webhook.Key) bool) []webhook.Key {
	var missing []webhook.Key
	seen := make(map[webhook.Key]bool, len(keys))
	for _, key := range keys {
		if !seen[key] && !known(key) {
			missing = append(missing, key)
		}
		seen[key] = true
	}
	return missing
}

// Retention is how long an [engine.Engine] keeps the keys of handled events. The platform can
// send or list an event again for 30 days, and Retention is one day more.
//
// API section: "Limits".
const Retention = 31 * 24 * time.Hour
