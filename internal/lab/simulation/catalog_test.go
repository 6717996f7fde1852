package simulation

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/lab/schedule"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
)

// TestCatalog checks that no product of the platform is ever marked as gone. A store updated by two
// replicas must end equal to the platform's catalog, and so must a reader of its change feed.
func TestCatalog(t *testing.T) { explore(t, newCatalogWorld, 250, 25_000) }

// catalogWorld is a platform with changing products, a store, and replicas that update the store.
type catalogWorld struct {
	s        *schedule.Scheduler
	platform *platform
	store    catalogstore.Store
	announce func(model.Event) // handles the platform's events
	kept     string            // ID of a product that is never removed
	changes  int
	read     int64                          // last revision read from the feed
	feed     map[string]catalogstore.Record // records of the feed by product ID

	mu     sync.Mutex        // guards locked
	locked *schedule.Process // process with the lock; a dead one does not count
}

func newCatalogWorld(s *schedule.Scheduler) {
	w := newCatalog(s, newPlatform(s))
	w.announce = func(e model.Event) { // like a handler
		if err := w.store.Request(context.Background(), time.Now(), e.ObjectID); err != nil {
			panic(err)
		}
	}
	for i := range 2 {
		s.Process(fmt.Sprintf("replica %d", i+1), s.Rand.IntN(3), s.Rand.IntN(2), func(p *schedule.Process) {
			client := w.platform.Client(model.User{}, dispensary.WithLogger(logtest.NewLogger(&w.platform.logs)), dispensary.WithTokenSource(w.platform),
				dispensary.WithTransport(killable{p.Transport(w.platform, w.platform.tell)}))
			go w.sync(p, w.syncer(p, client, 4), 0)
		})
	}
	w.actions()
	w.promises()
}

// newCatalog returns a world with an empty store.
func newCatalog(s *schedule.Scheduler, p *platform) *catalogWorld {
	return &catalogWorld{s: s, platform: p, store: catalogsync.NewMemoryStore(), feed: map[string]catalogstore.Record{}}
}

func (w *catalogWorld) actions() {
	w.s.Action("a product is renamed", 3, nil, w.rename)
	w.s.Action("a product is added", 2, nil, w.add)
	w.s.Action("a product is removed", 2, nil, w.remove)
	w.s.Action("the changes are read", 4, nil, w.follow)
}

func (w *catalogWorld) promises() {
	w.s.SettledWhen("the store equals the platform's catalog", func() bool { return w.differs() == "" })
	w.s.InTheEnd(func() error {
		w.follow()
		for id, followed := range w.feed {
			if stored, err := w.store.Get(context.Background(), id); err != nil || stored.Revision != followed.Revision {
				return fmt.Errorf("the feed reader has revision %d of %s, but the store has %d: %w", followed.Revision, id, stored.Revision, err)
			}
		}
		return nil
	})
}

// syncer returns the syncer of a replica.
func (w *catalogWorld) syncer(p *schedule.Process, client *dispensary.Client, pageSize int) *catalogsync.Syncer {
	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{
		Catalog: client.Catalog, Store: catalogStore{w.store, p, w}, PageSize: pageSize, Prefetch: 3,
	})
	if err != nil {
		panic(err)
	}
	return syncer
}

// sync repeatedly syncs the catalog and fetches requested products. It pauses in between, for at
// least a minute during the recovery.
func (w *catalogWorld) sync(p *schedule.Process, syncer *catalogsync.Syncer, pause time.Duration) {
	for {
		p.Step("syncs")
		_, _ = syncer.Sync(p.Context())
		p.Step("reads what is requested")
		_ = syncer.FetchRequested(p.Context())
		if w.s.Recovering() > 0 {
			pause = max(pause, time.Minute)
		}
		time.Sleep(pause)
	}
}

// killable returns an error to the caller of a request if the process is killed. Without it, the
// goroutine would end, and a sync would wait for its pages forever.
type killable struct{ http.RoundTripper }

func (k killable) RoundTrip(r *http.Request) (response *http.Response, err error) {
	err = schedule.ErrKilled
	done := make(chan struct{})
	go func() {
		defer close(done) // also if the goroutine ends with the process
		response, err = k.RoundTripper.RoundTrip(r)
	}()
	<-done
	return response, err
}

func (w *catalogWorld) changed(_ model.Product, e model.Event, err error) {
	if err != nil {
		panic(err)
	}
	w.announce(e)
}

func (w *catalogWorld) any() model.Product {
	all := w.platform.Products.All()
	w.changes++
	return all[w.changes*7%len(all)]
}

func (w *catalogWorld) rename() {
	p := w.any()
	w.changed(w.platform.Products.Update(p.ID, model.ProductUpdate{Name: new(fmt.Sprintf("Name %d", w.changes))}))
}

func (w *catalogWorld) add() {
	w.changed(w.platform.Products.Create(model.ProductCreate{Variants: make([]model.VariantCreate, 1)}))
}

func (w *catalogWorld) remove() {
	p := w.any()
	if p.ID == w.kept {
		return
	}
	if err := w.platform.Products.Remove(p.ID); err != nil {
		panic(err)
	}
}

func (w *catalogWorld) follow() {
	records, err := w.store.Changes(context.Background(), w.read, 1000)
	if err != nil {
		panic(err)
	}
	for _, r := range records {
		if r.Revision <= w.read {
			w.s.Failf("revision %d follows revision %d", r.Revision, w.read)
		}
		w.read, w.feed[r.Product.ID] = r.Revision, r
	}
}

// noneIsGone checks that the store marks no product of the platform as gone.
func (w *catalogWorld) noneIsGone() {
	for _, p := range w.platform.Products.All() {
		if r, err := w.store.Get(context.Background(), p.ID); err == nil && r.Presence == catalogstore.PresenceGone {
			w.s.Failf("product %s is gone in the store but exists on the platform", p.ID)
		}
	}
}

// differs returns the first difference between the store and the platform, or "".
func (w *catalogWorld) differs() string {
	state, err := w.store.State(context.Background())
	switch {
	case err != nil:
		return err.Error()
	case state.Requested > 0:
		return "a product is requested"
	case state.Newest.CompletedAt.IsZero():
		return "a walk is incomplete"
	}
	all := w.platform.Products.All()
	for _, p := range all {
		r, err := w.store.Get(context.Background(), p.ID)
		if err != nil || r.Product.Name != p.Name || r.Presence != catalogstore.PresencePresent {
			return p.ID
		}
	}
	if state.Records[catalogstore.PresencePresent] != len(all) || state.Records[catalogstore.PresenceMissing] > 0 {
		return "the store has other products"
	}
	return ""
}

// catalogStore is the view of the store from one replica.
type catalogStore struct {
	catalogstore.Store
	process *schedule.Process
	w       *catalogWorld
}

func askCatalog[T any](ctx context.Context, s catalogStore, op string, work func() (T, error)) (T, error) {
	call := schedule.Spec{Name: "catalog: " + op, Fates: databaseFates, Fail: func(schedule.Fate) error { return errDatabase }}
	return schedule.Do(ctx, s.process, call, func() (T, error) {
		result, err := work()
		s.w.noneIsGone()
		return result, err
	})
}

// Lock takes a lock until it is released or its process is dead.
func (s catalogStore) Lock(ctx context.Context) (unlock func() error, err error) {
	call := schedule.Spec{Name: "catalog: Lock", Fates: []schedule.Fate{schedule.Refused}, Fail: func(schedule.Fate) error { return errDatabase }}
	return schedule.Do(ctx, s.process, call, func() (func() error, error) {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		if s.w.locked != nil && s.w.locked.Alive() {
			return nil, catalogstore.ErrSyncing
		}
		s.w.locked = s.process
		return func() error {
			s.w.mu.Lock()
			defer s.w.mu.Unlock()
			if s.w.locked == s.process {
				s.w.locked = nil
			}
			return nil
		}, nil
	})
}

func (s catalogStore) State(ctx context.Context) (catalogstore.State, error) {
	return askCatalog(ctx, s, "State", func() (catalogstore.State, error) { return s.Store.State(ctx) })
}

func (s catalogStore) Begin(ctx context.Context, walk catalogstore.Walk) error {
	_, err := askCatalog(ctx, s, "Begin", func() (nothing, error) { return nothing{}, s.Store.Begin(ctx, walk) })
	return err
}

func (s catalogStore) SavePage(ctx context.Context, walk catalogstore.Walk, products []catalogstore.Listed) (catalogstore.Counts, error) {
	return askCatalog(ctx, s, fmt.Sprintf("SavePage %d", walk.Page), func() (catalogstore.Counts, error) { return s.Store.SavePage(ctx, walk, products) })
}

func (s catalogStore) Unlisted(ctx context.Context, walk catalogstore.Walk, limit int) ([]string, error) {
	return askCatalog(ctx, s, "Unlisted", func() ([]string, error) { return s.Store.Unlisted(ctx, walk, limit) })
}

func (s catalogStore) Complete(ctx context.Context, walk catalogstore.Walk, gone []string) (catalogstore.Walk, error) {
	return askCatalog(ctx, s, "Complete", func() (catalogstore.Walk, error) { return s.Store.Complete(ctx, walk, gone) })
}

func (s catalogStore) SaveDetails(ctx context.Context, readAt time.Time, product catalog.Product) (bool, error) {
	return askCatalog(ctx, s, "SaveDetails", func() (bool, error) { return s.Store.SaveDetails(ctx, readAt, product) })
}

func (s catalogStore) Request(ctx context.Context, at time.Time, ids ...string) error {
	_, err := askCatalog(ctx, s, "Request", func() (nothing, error) { return nothing{}, s.Store.Request(ctx, at, ids...) })
	return err
}

func (s catalogStore) Requested(ctx context.Context, limit int) ([]catalogstore.Request, error) {
	return askCatalog(ctx, s, "Requested", func() ([]catalogstore.Request, error) { return s.Store.Requested(ctx, limit) })
}

func (s catalogStore) Drop(ctx context.Context, r catalogstore.Request) error {
	_, err := askCatalog(ctx, s, "Drop", func() (nothing, error) { return nothing{}, s.Store.Drop(ctx, r) })
	return err
}
