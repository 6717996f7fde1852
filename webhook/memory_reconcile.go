package webhook

import (
	"bytes"
	"context"
	"time"
)

var _ Reconcilable = (*MemoryInbox)(nil)

// memoryCheckpoint is what a MemoryInbox keeps under a name.
type memoryCheckpoint struct {
	state  []byte
	holder string
	until  time.Time
}

func (c *memoryCheckpoint) heldBy(holder string) bool {
	return c != nil && c.holder == holder && c.until.After(time.Now())
}

// Missing implements [Reconcilable]. Keys beyond [MemoryConfig.MaxKeys] have been
// forgotten, and are missing.
func (m *MemoryInbox) Missing(ctx context.Context, keys []Key) ([]Key, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrInboxClosed
	}
	var missing []Key
	asked := make(map[Key]bool, len(keys))
	for _, key := range keys {
		if !asked[key] && m.held[key] == nil && !m.past.has(key) {
			missing = append(missing, key)
		}
		asked[key] = true
	}
	return missing, nil
}

// ClaimCheckpoint implements [Checkpoints].
func (m *MemoryInbox) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.checkpoints[name]
	switch {
	case m.closed:
		return nil, ErrInboxClosed
	case c == nil:
		c = &memoryCheckpoint{}
		m.checkpoints[name] = c
	case c.holder != holder && c.until.After(time.Now()):
		return nil, ErrCheckpointHeld
	}
	c.holder, c.until = holder, time.Now().Add(ttl)
	return bytes.Clone(c.state), nil
}

// SaveCheckpoint implements [Checkpoints].
func (m *MemoryInbox) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.checkpoints[name]
	switch {
	case m.closed:
		return ErrInboxClosed
	case !c.heldBy(holder):
		return ErrCheckpointHeld
	}
	c.state, c.until = bytes.Clone(state), time.Now().Add(ttl)
	return nil
}

// ReleaseCheckpoint implements [Checkpoints].
func (m *MemoryInbox) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.checkpoints[name]; c.heldBy(holder) {
		c.until = time.Time{}
	}
	return nil
}
