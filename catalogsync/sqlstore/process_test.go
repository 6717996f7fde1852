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
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
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
	Driver   string
	Name     string // of the database
	Site     api.Site
	Secret   string // the access token
	PageSize int
	Prefetch int
}

// report is what it prints once it has synced.
type report struct {
	Walk   catalogstore.Walk
	Locked int // how often another one had the lock
}

// Token implements [api.TokenSource].
func (o order) Token(context.Context) (api.AccessToken, error) {
	return api.AccessToken{Secret: dispensary.NewSecret(o.Secret), Environment: o.Site.Environment}, nil
}

func syncOnce(text string, out io.Writer) error {
	ctx := context.Background()
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	d := database{o.Driver, o.Name}
	db, err := d.connect(ctx)
	if err != nil {
		return err
	}
	store, err := sqlstore.Open(ctx, db)
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
	for r.Walk, err = syncer.Sync(ctx); errors.Is(err, catalogstore.ErrSyncing) && r.Locked < 1_000; r.Walk, err = syncer.Sync(ctx) {
		r.Locked++
		time.Sleep(10 * time.Millisecond) // a server needs a moment to see that a process was killed
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return errors.Join(json.NewEncoder(out).Encode(r), db.Close())
}

// world is a platform that is read by processes which are killed, while products leave it.
type world struct {
	*testing.T
	platform *dispensarytest.Server
	store    catalogstore.Store
	order    order

	mu       sync.Mutex
	changing bool
	listed   int    // requests for pages
	killAt   int    // the request at which the process is to be killed; 0 for none
	kill     func() // kills it
}

func newWorld(t *testing.T, d database, products, pageSize int) *world {
	t.Helper()
	w := &world{
		T: t, store: d.store(t, d.open(t)), changing: true,
		platform: dispensarytest.New(t, dispensarytest.WithTuning(dispensarytest.Tuning{JournalLimit: 1, EventLimit: 1, WorldSize: model.WorldSize{Products: products}})),
	}
	handler := w.platform.Handler()
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/catalog/products") {
			w.before()
		}
		handler.ServeHTTP(rw, r)
	}))
	t.Cleanup(front.Close)
	site := w.platform.Site()
	site.BaseURL, site.AuthURL = front.URL+"/api", front.URL
	w.order = order{
		Driver: d.driver, Name: d.name, Site: site, PageSize: pageSize, Prefetch: 4,
		Secret: w.platform.Tokens.Issue(model.User{}).AccessToken,
	}
	return w
}

// before counts a request for a page, removes a product now and then, and kills the process: in a
// moment, so that it may be anywhere between this page and the next.
func (w *world) before() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := w.platform.Products.All(); w.changing && rand.IntN(4) == 0 {
		assert.NoError(w, w.platform.Products.Remove(all[rand.IntN(len(all))].ID))
	}
	if w.listed++; w.listed == w.killAt {
		time.AfterFunc(time.Duration(rand.IntN(4_000))*time.Microsecond, w.kill)
	}
}

// sync runs a process that syncs once. It is killed after requests for pages, unless it has
// synced before; 0 kills it never.
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
	if killed = after > 0 && command.ProcessState.ExitCode() < 0; killed {
		return r, true
	}
	require.NoError(w, err, failure.String())
	require.NoError(w, json.Unmarshal([]byte(out.String()), &r))
	if w.order.Driver == "sqlite" {
		assert.Zero(w, r.Locked, "the lock ends with the process")
	}
	return r, false
}

// stored returns the records of a presence, by their ids.
func (w *world) stored(presence catalogstore.Presence) map[string]catalogstore.Record {
	w.Helper()
	records, err := w.store.Changes(w.Context(), 0, 1_000_000)
	require.NoError(w, err)
	found := map[string]catalogstore.Record{}
	for _, r := range records {
		if r.Presence == presence {
			found[r.Product.ID] = r
		}
	}
	return found
}

// Processes that sync are killed at random moments, while products leave. None is gone that the
// platform has, and after one walk that nothing disturbs the store has what the platform lists.
func TestKilledSyncs(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for _, driver := range drivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			killSyncs(t, newDatabase(t, driver))
		})
	}
}

func killSyncs(t *testing.T, d database) {
	kills, products, pageSize := testsize.Of(8, 200), testsize.Of(300, 20_000), testsize.Of(10, 100)
	w := newWorld(t, d, products, pageSize)
	var pages, walks int
	for killed := 0; killed < kills; {
		report, dead := w.sync(1 + rand.IntN(products/pageSize*3/2))
		if dead {
			killed++
		} else {
			walks, pages = walks+1, pages+report.Walk.Page
		}
		for id := range w.stored(catalogstore.PresenceGone) {
			p, _ := w.platform.Products.Get(id)
			require.True(t, p.Removed, "%s is gone, and the platform has it", p.Name)
		}
	}
	w.mu.Lock()
	w.changing = false // also for requests of a process that is dead
	w.mu.Unlock()
	report, _ := w.sync(0) // the walk that was interrupted
	walks, pages = walks+1, pages+report.Walk.Page
	// A process that was killed leaves pages on their way and pages that it has not saved.
	// They are read again, and the page before them, to see that they follow it.
	assert.LessOrEqual(t, w.listed, pages+max(10*walks, pages/10)+kills*2*(w.order.Prefetch+1))

	before := w.listed
	report, _ = w.sync(0)
	assert.Equal(t, report.Walk.Page, w.listed-before)
	records, listed := w.stored(catalogstore.PresencePresent), 0
	for p, err := range w.platform.Client(model.User{}).Catalog.Products.List().All(t.Context()) {
		require.NoError(t, err)
		stored := records[p.ID].Product
		stored.DescriptionHTML, stored.Variants, stored.Dosage, stored.CustomDosage = "", nil, nil, nil
		require.Equal(t, p, stored)
		listed++
	}
	assert.Len(t, records, listed)
}
