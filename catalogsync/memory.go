package catalogsync

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// memoryStore is the Store of [NewMemoryStore].
type memoryStore struct {
	mu       sync.Mutex
	locked   bool
	state    catalogstore.State // without the counts, see State
	records  map[string]*memoryRecord
	requests map[string]time.Time

	// changes are in the order of revisions. Readers skip an entry if its record has a newer
	// revision. save removes such entries from time to time.
	changes []memoryChange
}

type memoryRecord struct {
	catalogstore.Record
	seen int64 // the generation of the last walk that saw it
}

type memoryChange struct {
	revision int64
	id       string
}

// NewMemoryStore returns an empty store in the memory of this process. Use it for tests, or if
// your program may read the whole catalog after each start. Returned records share slices and
// pointers with the store, so do not modify them.
func NewMemoryStore() catalogstore.Store {
	return &memoryStore{records: map[string]*memoryRecord{}, requests: map[string]time.Time{}}
}

// Lock implements [catalogstore.Store].
func (m *memoryStore) Lock(ctx context.Context) (unlock func() error, err error) {
	return locked(ctx, m, func() (func() error, error) {
		if m.locked {
			return nil, catalogstore.ErrSyncing
		}
		m.locked = true
		return sync.OnceValue(func() error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.locked = false
			return nil
		}), nil
	})
}

// State implements [catalogstore.Store].
func (m *memoryStore) State(ctx context.Context) (catalogstore.State, error) {
	return locked(ctx, m, func() (catalogstore.State, error) {
		state := m.state
		state.Records, state.Requested = map[catalogstore.Presence]int{}, len(m.requests)
		for _, r := range m.records {
			state.Records[r.Presence]++
			if r.Presence != catalogstore.PresenceGone && !r.DetailsAt.IsZero() {
				state.Detailed++
			}
		}
		return state, nil
	})
}

// Begin implements [catalogstore.Store].
func (m *memoryStore) Begin(ctx context.Context, w catalogstore.Walk) error {
	_, err := locked(ctx, m, func() (none struct{}, err error) {
		if w.Generation != m.state.Newest.Generation+1 {
			return none, catalogstore.ErrSuperseded
		}
		m.state.Newest = storedWalk(w)
		return none, nil
	})
	return err
}

// SavePage implements [catalogstore.Store].
func (m *memoryStore) SavePage(ctx context.Context, w catalogstore.Walk, products []catalogstore.Listed) (catalogstore.Counts, error) {
	return locked(ctx, m, func() (counts catalogstore.Counts, err error) {
		if !m.underWay(w) {
			return counts, catalogstore.ErrSuperseded
		}
		m.state.Newest = storedWalk(w)
		for _, p := range products {
			id, readAt := p.Product.ID, stored(p.ReadAt)
			r := m.record(id)
			next, changed := r.Listed(p.Product, readAt)
			switch {
			case r.Presence == "":
				counts.Created++
			case r.seen == w.Generation:
				counts.Repeated++
			case changed:
				counts.Updated++
			default:
				counts.Unchanged++
			}
			if next.Hash != r.Hash && !r.DetailsAt.IsZero() {
				m.request(readAt, id)
			}
			r.seen = w.Generation
			m.save(r, next, changed)
		}
		return counts, nil
	})
}

// Unlisted implements [catalogstore.Store].
func (m *memoryStore) Unlisted(ctx context.Context, w catalogstore.Walk, limit int) ([]string, error) {
	return locked(ctx, m, func() ([]string, error) {
		found := m.unlisted(storedWalk(w), catalogstore.PresenceMissing)
		slices.SortFunc(found, func(a, b *memoryRecord) int {
			return cmp.Or(a.ReadAt.Compare(b.ReadAt), cmp.Compare(a.Product.ID, b.Product.ID))
		})
		ids := make([]string, 0, min(limit, len(found)))
		for _, r := range found[:min(limit, len(found))] {
			ids = append(ids, r.Product.ID)
		}
		return ids, nil
	})
}

// Complete implements [catalogstore.Store].
func (m *memoryStore) Complete(ctx context.Context, w catalogstore.Walk, gone []string) (catalogstore.Walk, error) {
	return locked(ctx, m, func() (catalogstore.Walk, error) {
		if !m.underWay(w) {
			return catalogstore.Walk{}, catalogstore.ErrSuperseded
		}
		w = storedWalk(w)
		unlisted := m.unlisted(w, catalogstore.PresencePresent)
		w.Missing = len(unlisted)
		for _, id := range slices.Compact(slices.Sorted(slices.Values(gone))) {
			if r := m.records[id]; r != nil && r.Presence == catalogstore.PresenceMissing && r.seen < w.Generation {
				unlisted = append(unlisted, r)
			}
		}
		w.Gone = len(unlisted) - w.Missing
		for _, r := range unlisted {
			next, changed := r.Unlisted()
			m.save(r, next, changed)
		}
		m.state.Newest, m.state.Complete = w, w
		return w, nil
	})
}

// SaveAttributes implements [catalogstore.Store].
func (m *memoryStore) SaveAttributes(ctx context.Context, attributes map[string]catalogstore.Attributes) error {
	_, err := locked(ctx, m, func() (none struct{}, err error) {
		for id, r := range m.records {
			next, changed := r.Attributed(attributes[id])
			m.save(r, next, changed)
		}
		return none, nil
	})
	return err
}

// SaveDetails implements [catalogstore.Store].
func (m *memoryStore) SaveDetails(ctx context.Context, readAt time.Time, p catalog.Product) (changed bool, err error) {
	return locked(ctx, m, func() (bool, error) {
		if err := catalogstore.CheckID(p.ID); err != nil {
			return false, err
		}
		readAt = stored(readAt)
		r := m.record(p.ID)
		next, changed := r.Detailed(p, readAt)
		m.save(r, next, changed)
		if at, requested := m.requests[p.ID]; requested && !at.After(readAt) {
			delete(m.requests, p.ID)
		}
		return changed, nil
	})
}

// Request implements [catalogstore.Store].
func (m *memoryStore) Request(ctx context.Context, at time.Time, ids ...string) error {
	_, err := locked(ctx, m, func() (none struct{}, err error) {
		for _, id := range ids {
			if err := catalogstore.CheckID(id); err != nil {
				return none, err
			}
		}
		for _, id := range ids {
			m.request(stored(at), id)
		}
		return none, nil
	})
	return err
}

// Requested implements [catalogstore.Store].
func (m *memoryStore) Requested(ctx context.Context, limit int) ([]catalogstore.Request, error) {
	return locked(ctx, m, func() ([]catalogstore.Request, error) {
		all := make([]catalogstore.Request, 0, len(m.requests))
		for id, at := range m.requests {
			all = append(all, catalogstore.Request{ProductID: id, At: at})
		}
		slices.SortFunc(all, func(a, b catalogstore.Request) int {
			return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ProductID, b.ProductID))
		})
		return all[:min(limit, len(all))], nil
	})
}

// Drop implements [catalogstore.Store].
func (m *memoryStore) Drop(ctx context.Context, r catalogstore.Request) error {
	_, err := locked(ctx, m, func() (none struct{}, err error) {
		if at, requested := m.requests[r.ProductID]; requested && !at.After(stored(r.At)) {
			delete(m.requests, r.ProductID)
		}
		return none, nil
	})
	return err
}

// Undetailed implements [catalogstore.Store].
func (m *memoryStore) Undetailed(ctx context.Context, after string, limit int) ([]string, error) {
	return locked(ctx, m, func() (ids []string, err error) {
		for id, r := range m.records {
			if id > after && r.Presence != catalogstore.PresenceGone && r.DetailsAt.IsZero() {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		return ids[:min(limit, len(ids))], nil
	})
}

// Get implements [catalogstore.Store].
func (m *memoryStore) Get(ctx context.Context, id string) (catalogstore.Record, error) {
	return locked(ctx, m, func() (catalogstore.Record, error) {
		r := m.records[id]
		if r == nil {
			return catalogstore.Record{}, catalogstore.ErrNotStored
		}
		return r.Record, nil
	})
}

// Changes implements [catalogstore.Store].
func (m *memoryStore) Changes(ctx context.Context, after int64, limit int) ([]catalogstore.Record, error) {
	return locked(ctx, m, func() (records []catalogstore.Record, err error) {
		from, _ := slices.BinarySearchFunc(m.changes, after+1, func(c memoryChange, revision int64) int {
			return cmp.Compare(c.revision, revision)
		})
		for _, c := range m.changes[from:] {
			if r := m.records[c.id]; r.Revision == c.revision {
				if records = append(records, r.Record); len(records) == limit {
					break
				}
			}
		}
		return records, nil
	})
}

// locked calls a function while it has the mutex, unless ctx has ended.
func locked[T any](ctx context.Context, m *memoryStore, call func() (T, error)) (T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return *new(T), err
	}
	return call()
}

// underWay reports whether a walk may still write.
func (m *memoryStore) underWay(w catalogstore.Walk) bool {
	return w.Generation == m.state.Newest.Generation && m.state.Newest.Generation > 0 && m.state.Newest.CompletedAt.IsZero()
}

// unlisted returns the records with presence p that were not seen by the walk, and not read
// since it began.
func (m *memoryStore) unlisted(w catalogstore.Walk, p catalogstore.Presence) (found []*memoryRecord) {
	for _, r := range m.records {
		since := r.ReadAt.Sub(w.StartedAt)
		if r.Presence == p && r.seen < w.Generation && (since < 0 || since > catalogstore.MaxRead) {
			found = append(found, r)
		}
	}
	return found
}

// record returns the record to save, which is zero if it is new.
func (m *memoryStore) record(id string) *memoryRecord {
	if r := m.records[id]; r != nil {
		return r
	}
	r := &memoryRecord{}
	m.records[id] = r
	return r
}

func (m *memoryStore) save(r *memoryRecord, next catalogstore.Record, changed bool) {
	if changed {
		m.state.Revision++
		next.Revision = m.state.Revision
		m.changes = append(m.changes, memoryChange{next.Revision, next.Product.ID})
	}
	r.Record = next
	if len(m.changes) > 2*len(m.records)+100 {
		m.changes = slices.DeleteFunc(m.changes, func(c memoryChange) bool { return m.records[c.id].Revision != c.revision })
	}
}

func (m *memoryStore) request(at time.Time, id string) {
	if before, requested := m.requests[id]; requested && !at.After(before) {
		at = before.Add(time.Microsecond)
	}
	m.requests[id] = at
}

// stored returns a time as stores keep it.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// storedWalk returns a walk as stores keep it.
func storedWalk(w catalogstore.Walk) catalogstore.Walk {
	w.StartedAt = stored(w.StartedAt)
	if !w.CompletedAt.IsZero() {
		w.CompletedAt = stored(w.CompletedAt)
	}
	return w
}
