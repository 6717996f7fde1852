package watermillinbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// Missing implements [webhook.Reconcilable].
func (i *Inbox) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	var missing []webhook.Key
	asked := map[webhook.Key]bool{}
	for some := range slices.Chunk(keys, batch) {
		names := make([]string, 0, len(some))
		for _, key := range some {
			names = append(names, kindEvent+eventID(key))
		}
		found, err := i.store.Get(ctx, names...)
		if err != nil {
			return nil, err
		}
		for n, key := range some {
			if _, known := found[names[n]]; !known && !asked[key] {
				missing = append(missing, key)
			}
			asked[key] = true
		}
	}
	return missing, nil
}

// checkpoint is the entry of a checkpoint.
type checkpoint struct {
	Holder string `json:"holder"`
	Until  int64  `json:"until"`
	State  []byte `json:"state"`
}

// ClaimCheckpoint implements [webhook.Checkpoints].
func (i *Inbox) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) (state []byte, err error) {
	err = i.change(ctx, name, func(c *checkpoint, now time.Time) error {
		if c.Holder != holder && c.Until > now.UnixMicro() {
			return webhook.ErrCheckpointHeld
		}
		c.Holder, c.Until, state = holder, now.Add(ttl).UnixMicro(), c.State
		return nil
	})
	if err != nil {
		return nil, err
	}
	return state, nil
}

// SaveCheckpoint implements [webhook.Checkpoints].
func (i *Inbox) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	return i.change(ctx, name, func(c *checkpoint, now time.Time) error {
		if c.Holder != holder || c.Until <= now.UnixMicro() {
			return webhook.ErrCheckpointHeld
		}
		c.Until, c.State = now.Add(ttl).UnixMicro(), state
		return nil
	})
}

// ReleaseCheckpoint implements [webhook.Checkpoints].
func (i *Inbox) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	err := i.change(ctx, name, func(c *checkpoint, _ time.Time) error {
		if c.Holder != holder {
			return webhook.ErrCheckpointHeld
		}
		c.Holder, c.Until = "", 0
		return nil
	})
	if errors.Is(err, webhook.ErrCheckpointHeld) {
		return nil
	}
	return err
}

// change reads a checkpoint and writes it changed, again if somebody else has
// written meanwhile.
func (i *Inbox) change(ctx context.Context, name string, change func(*checkpoint, time.Time) error) error {
	key := kindCheckpoint + digest(name)
	for {
		found, err := i.store.Get(ctx, key)
		if err != nil {
			return err
		}
		now, err := i.store.Now(ctx)
		if err != nil {
			return err
		}
		var c checkpoint
		there, exists := found[key]
		if exists {
			if err := decode(there.Value, &c); err != nil {
				return err
			}
		}
		if err := change(&c, now); err != nil {
			return err
		}
		entry := Entry{Key: key, Value: encode(c), Revision: there.Revision}
		if exists {
			_, err = i.store.Update(ctx, entry)
		} else {
			_, err = i.store.Create(ctx, entry)
		}
		if !errors.Is(err, ErrExists) && !errors.Is(err, ErrConflict) {
			return err
		}
	}
}
