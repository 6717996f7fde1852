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

// syncerVariable turns the test binary into a program that syncs once.
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

// order configures this program, as JSON in its environment.
type order struct {
	Driver   string
	Name     string // of the database
	Site     api.Site
	Secret   string // the access token
	PageSize int
	Prefetch int
}

// report is the output of this program after its sync.
type report struct {
	Walk   catalogstore.Walk
	Locked int // number of attempts while another process had the lock
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
		time.Sleep(10 * time.Millisecond) // a server needs a moment to notice the killed process
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return errors.Join(json.NewEncoder(out).Encode(r), db.Close())
}

// world is a platform that loses products while processes read it and are killed.
type world struct {
	*testing.T
	platform *dispensarytest.Server
	store    catalogstore.Store
	order    order

	mu       sync.Mutex
	changing bool
	listed   int    // requests for pages
	killAt   int    // the request at which to kill the process, 0 for none
	kill     func() // kills the process
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

// before counts a request for a page, sometimes removes a product, and schedules the kill. The
// random delay of up to 4 ms lets the kill hit any point between this page and the next.
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

// sync runs a process that syncs once. It is killed after the given number of requests for
// pages, unless it finishes first. 0 means never.
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
		assert.Zero(w, r.Locked, "the lock must end with the process")
	}
	return r, false
}

// stored returns the records with a presence, by id.
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

// The test kills syncing processes at random moments while the platform loses products. A
// product of the platform must never be gone. After one undisturbed walk, the store must have
// the same products as the platform's list.
func TestKilledSyncsLoseNoProduct(t *testing.T) {
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
			require.True(t, p.Removed, "%s is gone, but the platform has it", p.Name)
		}
	}
	w.mu.Lock()
	w.changing = false // also for late requests of a dead process
	w.mu.Unlock()
	report, _ := w.sync(0) // finishes the interrupted walk
	walks, pages = walks+1, pages+report.Walk.Page
	// A killed process leaves requested and unsaved pages. The next process reads them again,
	// and the page before them, to check that they follow it.
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
