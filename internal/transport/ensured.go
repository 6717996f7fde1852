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

// lockEntry is the state of a key while it is locked or has waiting callers.
type lockEntry struct {
	slot chan struct{} // contains a value while the key is held
	refs int
}

// lock waits for the key and returns a function to release it.
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

// leave deletes a key without a holder or waiting callers.
func (l *keyedLock) leave(key string, entry *lockEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if entry.refs--; entry.refs == 0 {
		delete(l.held, key)
	}
}

// alteredKeys contains the records created by the platform under another metadata id than the
// requested one. No search finds them, so only this memory prevents the next call from
// creating another one. Each entry is a record on the platform, which limits the memory.
type alteredKeys struct{ errors sync.Map }

// alteredKey is a key ensured by one user. Users of several clinics may use the same keys. Two
// clients have the same user if their token sources compare equal.
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
