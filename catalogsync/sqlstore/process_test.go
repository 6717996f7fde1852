package sqlstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// syncerVariable makes the test binary a program that syncs once.
const syncerVariable = "DISPENSARY_TEST_SYNCER"

func TestMain(m *testing.M) {
	if text := os.Getenv(syncerVariable); text != "" {
		if err := syncOnce(text, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// order is what such a program does, as JSON in its environment.
type order struct {
	Dialect  sqlstore.Dialect
	Name     string // of the database
	Site     api.Site
	Secret   string // the access token
	PageSize int
	Prefetch int
}

// report is what it prints once it has synced.
type report struct {
	Walk   catalogsync.Walk
	Locked int // how often another one had the lock
}

// Token implements [dispensary.TokenSource].
func (o order) Token(context.Context) (dispensary.AccessToken, error) {
	return dispensary.AccessToken{Secret: dispensary.NewSecret(o.Secret), Environment: o.Site.Environment}, nil
}

func syncOnce(text string, out io.Writer) error {
	ctx := context.Background()
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	d := database{o.Dialect, o.Name}
	db, err := d.connect(ctx)
	if err != nil {
		return err
	}
	store, err := sqlstore.New(db, d.dialect)
	if err != nil {
		return err
	}
	client, err := dispensary.New(o.Site, dispensary.WithTokenSource(o))
	if err != nil {
		return err
	}
	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{Catalog: client.Catalog, Store: store, PageSize: o.PageSize, Prefetch: o.Prefetch})
	if err != nil {
		return err
	}
	var r report
	for r.Walk, err = syncer.Sync(ctx); errors.Is(err, catalogsync.ErrSyncing) && r.Locked < 1_000; r.Walk, err = syncer.Sync(ctx) {
		r.Locked++
		time.Sleep(10 * time.Millisecond) // a server needs a moment to see that a process was killed
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return errors.Join(json.NewEncoder(out).Encode(r), db.Close())
}

// world is a platform whose catalog changes while it is read, by processes that are killed.
type world struct {
	*testing.T
	platform *dispensarytest.Server
	database database
	store    catalogsync.Store
	order    order
	checked  int64 // the revision up to which requireNoneGone has looked

	mu       sync.Mutex
	changing bool
	random   *rand.Rand
	listed   int    // requests for pages
	single   int    // requests for one product
	killAt   int    // the request at which the process is to be killed; 0 for none
	kill     func() // kills it
}

func newWorld(t *testing.T, d database, products, pageSize int) *world {
	t.Helper()
	w := &world{
		T: t, database: d, store: d.store(t, d.migrated(t)), random: rand.New(rand.NewPCG(1, rand.Uint64())),
		platform: dispensarytest.New(t, dispensarytest.WithJournalLimit(1),
			dispensarytest.WithEventLimit(1), dispensarytest.WithWorldSize(model.WorldSize{Products: products})),
	}
	handler := w.platform.Handler()
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.before(r)
		handler.ServeHTTP(rw, r)
	}))
	t.Cleanup(front.Close)
	site := w.platform.Site()
	site.BaseURL, site.AuthURL = front.URL+"/api", front.URL
	w.order = order{
		Dialect: d.dialect, Name: d.name, Site: site, PageSize: pageSize, Prefetch: 4,
		Secret: w.platform.Tokens.Issue(model.User{}).AccessToken,
	}
	return w
}

// before counts a request, changes the catalog, and has the process killed: in a moment, so
// that it may be anywhere between this page and the next.
func (w *world) before(r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !strings.HasSuffix(r.URL.Path, "/catalog/products") {
		w.single++
		return
	}
	if w.changing && w.random.IntN(4) == 0 {
		w.change()
	}
	if w.listed++; w.listed == w.killAt {
		time.AfterFunc(time.Duration(w.random.IntN(4_000))*time.Microsecond, w.kill)
	}
}

// change makes one change of the catalog.
func (w *world) change() {
	all := w.platform.Products.All()
	one := all[w.random.IntN(len(all))]
	var err error
	switch w.random.IntN(8) {
	case 0:
		_, _, err = w.platform.Products.Create(model.NewProduct{Name: fmt.Sprintf("New %d", w.random.Uint32()), BrandID: one.BrandID, Variants: []model.NewVariant{{}}})
	case 1:
		err = w.platform.Products.Remove(one.ID)
	case 2, 3, 4:
		_, _, err = w.platform.Products.Update(one.ID, model.ProductChange{Name: new(fmt.Sprintf("Changed %d", w.random.Uint32()))})
	default:
		_, _, err = w.platform.Products.UpdateVariant(one.VariantIDs[0], model.VariantChange{MSRP: new(model.Cents(w.random.IntN(10_000)))})
	}
	assert.NoError(w, err)
}

// sync runs a process that syncs once. With after it is killed when it has made so many
// requests, unless it has synced before.
func (w *world) sync(after int) (r report, killed bool) {
	w.Helper()
	text, err := json.Marshal(w.order)
	require.NoError(w, err)
	command := exec.Command(os.Args[0])
	var out, failure strings.Builder
	command.Env, command.Stdout, command.Stderr = append(os.Environ(), syncerVariable+"="+string(text)), &out, &failure
	require.NoError(w, command.Start())
	w.mu.Lock()
	w.killAt, w.kill = 0, func() { _ = command.Process.Kill() }
	if after > 0 {
		w.killAt = w.listed + after
	}
	w.mu.Unlock()
	err = command.Wait()
	if killed = after > 0 && command.ProcessState.ExitCode() < 0; !killed {
		require.NoError(w, err, failure.String())
	} else if out.Len() == 0 {
		return r, true
	} // and if not it was killed once it had synced, and what it reports holds
	require.NoError(w, json.Unmarshal([]byte(out.String()), &r))
	if w.database.dialect == sqlstore.SQLite {
		assert.Zero(w, r.Locked, "the lock ends with the process")
	}
	return r, false
}

// setChanging says whether the catalog changes with requests, some of which may be those of a
// process that is dead.
func (w *world) setChanging(changing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changing = changing
}

func (w *world) requests() (listed, single int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listed, w.single
}

// changes returns the records that have changed since a revision.
func (w *world) changes(after int64) (records []catalogsync.Record) {
	w.Helper()
	for {
		page, err := w.store.Changes(w.Context(), after, 1_000)
		require.NoError(w, err)
		if len(page) == 0 {
			return records
		}
		records, after = append(records, page...), page[len(page)-1].Revision
	}
}

// requireNoneGone asserts that nothing became gone, since it looked last, that the platform has.
func (w *world) requireNoneGone() {
	w.Helper()
	for _, r := range w.changes(w.checked) {
		w.checked = r.Revision
		if r.Presence == catalogsync.Gone {
			p, _ := w.platform.Products.Get(r.Product.ID)
			require.True(w, p.Removed, "%s is gone, and the platform has it", p.Name)
		}
	}
}

// requireEqual asserts that the store has all products of the platform as it lists them now,
// and no others, but as missing or gone. It returns how many of those are missing.
func (w *world) requireEqual() (missing int) {
	w.Helper()
	records := map[string]catalogsync.Record{}
	for _, r := range w.changes(0) {
		records[r.Product.ID] = r
	}
	for p, err := range w.platform.Client(model.User{}).Catalog.Products.All(w.Context(), catalog.ProductListOptions{}) {
		require.NoError(w, err)
		r, there := records[p.ID]
		require.True(w, there, "%s is not stored", p.Name)
		require.Equal(w, catalogsync.Present, r.Presence, p.Name)
		r.Product.DescriptionHTML, r.Product.Variants, r.Product.Dosage, r.Product.CustomDosage = "", nil, nil, nil
		require.Equal(w, p, r.Product)
		delete(records, p.ID)
	}
	for id, r := range records {
		require.NotEqual(w, catalogsync.Present, r.Presence, "the platform does not have %s", id)
		if r.Presence == catalogsync.Missing {
			missing++
		}
	}
	return missing
}

// Processes that sync are killed at random moments, while the catalog changes. Nothing is gone
// that the platform has, and after one walk that nothing disturbs the store is equal to it.
func TestKilledSyncs(t *testing.T) {
	testsize.SkipUnderRace(t)
	eachDatabase(t, func(t *testing.T, d database) {
		kills, products, pageSize := testsize.Of(8, 200), testsize.Of(300, 20_000), testsize.Of(10, 100)
		w := newWorld(t, d, products, pageSize)
		w.setChanging(true)
		random := rand.New(rand.NewPCG(2, rand.Uint64()))
		var pages, walks int
		for killed := 0; killed < kills; {
			report, dead := w.sync(1 + random.IntN(products/pageSize*3/2))
			if dead {
				killed++
			} else {
				walks, pages = walks+1, pages+report.Walk.Page
			}
			w.requireNoneGone()
		}
		w.setChanging(false)
		report, _ := w.sync(0) // the walk that was interrupted
		walks, pages = walks+1, pages+report.Walk.Page
		listed, single := w.requests()
		t.Logf("%d kills, %d walks of %d pages: %d requests for pages and %d for single products", kills, walks, pages, listed, single)
		// A process that was killed leaves pages on their way and pages that it has not saved.
		// They are read again, and the page before them, to see that they follow it.
		assert.LessOrEqual(t, listed+single, pages+max(10*walks, pages/10)+kills*2*(w.order.Prefetch+1))

		report, _ = w.sync(0)
		missing := w.requireEqual()
		after, afterSingle := w.requests()
		t.Logf("undisturbed: %d pages, %d requests for pages and %d for single products", report.Walk.Page, after-listed, afterSingle-single)
		assert.Equal(t, report.Walk.Page, after-listed)
		assert.LessOrEqual(t, after-listed+afterSingle-single, report.Walk.Page+max(10, report.Walk.Page/10))
		for missing > 0 { // a walk confirms as many as its budget allows
			w.sync(0)
			left := w.requireEqual()
			require.Less(t, left, missing, "those that are no more become gone")
			missing = left
		}
	})
}
