package transport

import (
	"context"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// ensureKey identifies a record to ensure. Two clinics may use the same metadata ids.
type ensureKey struct {
	holder    string // a name of the clinic or of its user, see holdersOf
	operation string
	id        string
}

// holdersOf returns the names of the clinic and of the user with a token, the clinic first. A
// clinic may become known between two calls. The token is the last resort.
func holdersOf(token api.AccessToken, clinicKey api.Secret) (names []string) {
	if id := token.Account.ClinicID; id != "" {
		names = append(names, "clinic "+id)
	}
	if !clinicKey.IsZero() {
		names = append(names, "key "+clinicKey.Reveal())
	}
	if token.Account.OwnerID != "" {
		names = append(names, "owner "+token.Account.OwnerType+" "+token.Account.OwnerID)
	}
	if len(names) == 0 {
		names = append(names, "token "+token.Secret.Reveal())
	}
	return names
}

// keyedLock admits one caller for each key. Views of a client share it.
type keyedLock struct {
	mu   sync.Mutex
	held map[ensureKey]*lockEntry
}

// lockEntry is the state of a key while it is locked or has waiting callers.
type lockEntry struct {
	slot chan struct{} // contains a value while the key is held
	refs int
}

// lock waits for the key and returns a function to release it.
func (l *keyedLock) lock(ctx context.Context, key ensureKey) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[ensureKey]*lockEntry{}
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
func (l *keyedLock) leave(key ensureKey, entry *lockEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if entry.refs--; entry.refs == 0 {
		delete(l.held, key)
	}
}

const (
	// ensuredFor is the time for which a created record is remembered. A lookup shows it much
	// earlier, unless the platform has altered its metadata id.
	ensuredFor = 24 * time.Hour

	// maxEnsured is the largest number of remembered names of records, about 2 MB.
	maxEnsured = 10_000

	// unknownFor is the time for which a create call with an unknown outcome permits no other
	// one, if the lookup does not show its record.
	unknownFor = 2 * time.Minute
)

// ensuredRecord is the record of a create call.
type ensuredRecord struct {
	id      string           // empty if the outcome of the call is unknown
	failure *api.EnsureError // nil if the platform stored the record as requested
	at      time.Time
}

// ensuredRecords remembers the records that Ensure has created, because a lookup may not show
// a new record yet and never shows an altered one. Views of a client share it.
type ensuredRecords struct {
	mu      sync.Mutex
	records map[ensureKey]ensuredRecord
	order   []ensuredAt // oldest first, with entries of records that were replaced
}

type ensuredAt struct {
	key ensureKey
	at  time.Time
}

// find returns the record created for one of the keys.
func (e *ensuredRecords) find(keys []ensureKey) (ensuredRecord, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		record, ok := e.records[key]
		limit := ensuredFor
		if record.id == "" {
			limit = unknownFor
		}
		if ok && time.Since(record.at) < limit {
			return record, true
		}
	}
	return ensuredRecord{}, false
}

// add remembers a record under all keys, and forgets the oldest ones.
func (e *ensuredRecords) add(keys []ensureKey, record ensuredRecord) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.records == nil {
		e.records = map[ensureKey]ensuredRecord{}
	}
	record.at = time.Now()
	for _, key := range keys {
		e.records[key] = record
		e.order = append(e.order, ensuredAt{key, record.at})
	}
	for len(e.order) > maxEnsured || time.Since(e.order[0].at) >= ensuredFor {
		if oldest := e.order[0]; e.records[oldest.key].at.Equal(oldest.at) {
			delete(e.records, oldest.key)
		}
		e.order = e.order[1:]
	}
}

// forget removes the record of the keys.
func (e *ensuredRecords) forget(keys []ensureKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		delete(e.records, key)
	}
}
