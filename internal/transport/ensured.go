package transport

import (
	"context"
	"reflect"
	"sync"

	"github.com/dispensary-go/dispensary/api"
)

// keyedLock admits one caller for each key. Views of a client share it.
type keyedLock struct {
	mu   sync.Mutex
	held map[string]*lockEntry
}

// lockEntry is a key that a caller holds or waits for.
type lockEntry struct {
	slot chan struct{} // holds a value while the key is held
	refs int
}

// lock waits for the key and returns the function that releases it.
func (l *keyedLock) lock(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*lockEntry{}
	}
	entry := l.held[key]
	if entry == nil {
		entry = &lockEntry{slot: make(chan struct{}, 1)}
		l.held[key] = entry
	}
	entry.refs++
	l.mu.Unlock()
	select {
	case entry.slot <- struct{}{}:
		return func() { <-entry.slot; l.leave(key, entry) }, nil
	case <-ctx.Done():
		l.leave(key, entry)
		return nil, ctx.Err()
	}
}

// leave deletes a key that no caller holds or waits for.
func (l *keyedLock) leave(key string, entry *lockEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if entry.refs--; entry.refs == 0 {
		delete(l.held, key)
	}
}

// alteredKeys are the records that the platform created under another metadata id than
// was sent. No search finds them, so that only this memory keeps the next call from
// creating one more. Each entry is a record on the platform, which bounds the memory.
type alteredKeys struct{ errors sync.Map }

// alteredKey is a key as one user has ensured it. Users of several clinics may share keys.
// Two clients have the same user if their token sources compare equal.
type alteredKey struct {
	user api.TokenSource
	name string
}

func (a *alteredKeys) find(user api.TokenSource, name string) error {
	if !reflect.ValueOf(user).Comparable() {
		return nil
	}
	if known, ok := a.errors.Load(alteredKey{user, name}); ok {
		return known.(error)
	}
	return nil
}

func (a *alteredKeys) add(user api.TokenSource, name string, err *api.EnsureError) error {
	if reflect.ValueOf(user).Comparable() {
		a.errors.Store(alteredKey{user, name}, err)
	}
	return err
}
