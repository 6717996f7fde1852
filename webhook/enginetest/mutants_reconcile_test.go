package enginetest_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/enginetest"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// reconcilable is an engine with other answers to reconcile.Clinics. Zero fields
// change nothing.
type reconcilable struct {
	*memoryinbox.Inbox
	missing          func(context.Context, *memoryinbox.Inbox, []webhook.Key) ([]webhook.Key, error)
	claim            func(ctx context.Context, name, holder string) error
	save             func(ctx context.Context, m *memoryinbox.Inbox, name, holder string, state []byte) error
	name             func(string) string
	holder, releaser string
	ttl              time.Duration
}

func reconciled(change func(*reconcilable)) func() enginetest.Storage {
	return func() enginetest.Storage {
		return enginetest.Storage{Ordered: true, Open: func(w webhook.Work) (engine.Engine, error) {
			inbox, err := openMemory(w)
			if err != nil {
				return nil, err
			}
			m := &reconcilable{Inbox: inbox.(*memoryinbox.Inbox), name: func(name string) string { return name }}
			change(m)
			return m, nil
		}}
	}
}

func (m *reconcilable) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	if m.missing != nil {
		return m.missing(ctx, m.Inbox, keys)
	}
	return m.Inbox.Missing(ctx, keys)
}

func (m *reconcilable) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	if m.claim != nil {
		return nil, m.claim(ctx, name, holder)
	}
	return m.Inbox.ClaimCheckpoint(ctx, m.name(name), cmp.Or(m.holder, holder), cmp.Or(m.ttl, ttl))
}

func (m *reconcilable) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	if m.save != nil {
		return m.save(ctx, m.Inbox, name, holder, state)
	}
	return m.Inbox.SaveCheckpoint(ctx, m.name(name), cmp.Or(m.holder, holder), state, cmp.Or(m.ttl, ttl))
}

func (m *reconcilable) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	return m.Inbox.ReleaseCheckpoint(ctx, m.name(name), cmp.Or(m.releaser, m.holder, holder))
}

func everything(_ context.Context, _ *memoryinbox.Inbox, keys []webhook.Key) ([]webhook.Key, error) {
	return keys, nil
}

func byEventIDs(ctx context.Context, m *memoryinbox.Inbox, keys []webhook.Key) ([]webhook.Key, error) {
	missing, err := m.Missing(ctx, keys)
	return slices.DeleteFunc(missing, func(key webhook.Key) bool {
		return slices.ContainsFunc(keys, func(other webhook.Key) bool {
			return other.EventID == key.EventID && !slices.Contains(missing, other)
		})
	}), err
}

func reversed(ctx context.Context, m *memoryinbox.Inbox, keys []webhook.Key) ([]webhook.Key, error) {
	missing, err := m.Missing(ctx, keys)
	slices.Reverse(missing)
	return missing, err
}

func repeated(ctx context.Context, m *memoryinbox.Inbox, keys []webhook.Key) (all []webhook.Key, err error) {
	for _, key := range keys {
		missing, err := m.Missing(ctx, []webhook.Key{key})
		if err != nil {
			return nil, err
		}
		all = append(all, missing...)
	}
	return all, nil
}

func noError(ctx context.Context, m *memoryinbox.Inbox, keys []webhook.Key) ([]webhook.Key, error) {
	missing, _ := m.Missing(ctx, keys)
	return missing, nil
}

func claimAndSave(ctx context.Context, m *memoryinbox.Inbox, name, holder string, state []byte) error {
	for _, former := range []string{"first", "second"} {
		if err := m.ReleaseCheckpoint(ctx, name, former); err != nil {
			return err
		}
	}
	_, err := m.ClaimCheckpoint(ctx, name, holder, time.Hour)
	return errors.Join(err, m.SaveCheckpoint(ctx, name, holder, state, time.Hour))
}

func checkThenClaim() func(context.Context, string, string) error {
	var holders sync.Map
	return func(_ context.Context, name, holder string) error {
		if held, ok := holders.Load(name); ok && held != holder {
			return reconcile.ErrCheckpointHeld
		}
		<-time.After(time.Millisecond)
		holders.Store(name, holder)
		return nil
	}
}
