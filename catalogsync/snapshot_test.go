package catalogsync_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// row implements [catalogsync.Snapshots] in memory, like a row of a database.
type row struct {
	mu       sync.Mutex
	document []byte
	version  int
}

func (r *row) Load(_ context.Context, known string) ([]byte, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	version := fmt.Sprint(r.version)
	if r.document == nil || known == version {
		return nil, version, nil
	}
	return r.document, version, nil
}

func (r *row) Save(_ context.Context, document []byte) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.document, r.version = document, r.version+1
	return fmt.Sprint(r.version), nil
}

// process is a process with a copy. After its death it saves nothing.
type process struct {
	*catalogsync.Catalog
	dead   atomic.Bool
	cancel context.CancelFunc
	ended  chan error
}

// mortal implements [catalogsync.Snapshots] for a process.
type mortal struct {
	*row
	p *process
}

func (m mortal) Save(ctx context.Context, document []byte) (string, error) {
	if m.p.dead.Load() {
		return "", assert.AnError
	}
	return m.row.Save(ctx, document)
}

// start runs a process. made creates its copy.
func start(t *testing.T, shared *row, made func(catalogsync.Snapshots) *catalogsync.Catalog) *process {
	p := &process{ended: make(chan error, 1)}
	p.Catalog = made(mortal{shared, p})
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(t.Context())
	go func() { p.ended <- p.Run(ctx) }()
	return p
}

func (p *process) stop() {
	p.cancel()
	<-p.ended
}

func (p *process) kill() {
	p.dead.Store(true)
	p.stop()
}

// A restart must continue an interrupted walk, and keep gone records and revisions.
func TestRestartLoadsSnapshot(t *testing.T) {
	t.Parallel()
	list, path := newMovingList(100), filepath.Join(t.TempDir(), "catalog")
	open := func() *catalogsync.Catalog {
		return list.copy(t, catalogsync.Config{PageSize: 10, Snapshots: catalogsync.File(path)})
	}
	first := open()
	mustSync(t, first)
	list.change(func(ids []string) []string { return ids[1:] })
	for range 2 {
		mustSync(t, first)
	}
	want, revision := first.State(), first.State().Revision
	ctx, cancel := context.WithCancel(t.Context())
	list.before = onRequest(5, cancel)
	_, err := first.Sync(ctx)
	require.ErrorIs(t, err, context.Canceled)

	second, before := open(), list.requests()
	list.before = nil
	walk := mustSync(t, second)
	assert.EqualValues(t, 4, walk.Generation, "the same walk")
	assert.LessOrEqual(t, list.requests()-before, 7)
	assert.Equal(t, want.Records, second.State().Records)
	assert.Equal(t, []string{"p-00000"}, stored(second, catalogsync.PresenceGone))
	assert.Empty(t, slices.Collect(second.Changes(revision)), "a reader continues")
	assert.Len(t, names(t, second, catalogsync.SearchOptions{Query: "p-00050"}), 1)
	list.change(func(ids []string) []string { return append(ids, "p-new") })
	mustSync(t, second)
	assert.Len(t, slices.Collect(second.Changes(revision)), 1)
}

// A process that is killed during a walk must lose about a minute of it.
func TestKilledWalkContinues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, shared := newMovingList(100), &row{}
		made := func(s catalogsync.Snapshots) *catalogsync.Catalog {
			return list.copy(t, catalogsync.Config{PageSize: 1, Snapshots: s, Limiter: pause(20 * time.Second)})
		}
		p := start(t, shared, made)
		time.Sleep(20 * time.Minute) // 60 pages
		p.kill()
		p = start(t, shared, made)
		time.Sleep(20 * time.Minute)
		complete := p.State().Complete
		assert.EqualValues(t, 1, complete.Generation)
		assert.LessOrEqual(t, list.requests(), 100+6)
		p.stop()
	})
}

// pause delays each request.
type pause time.Duration

func (p pause) Wait(context.Context) error {
	time.Sleep(time.Duration(p))
	return nil
}

// Three replicas must share the walks, also slow ones. A product with an event on one of them must
// reach all. The reader of a replica that is sometimes killed must see each change.
func TestReplicasShareWalks(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for _, delay := range []time.Duration{0, 30 * time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { playReplicas(t, delay) })
		})
	}
}

func playReplicas(t *testing.T, delay time.Duration) {
	list, shared := newMovingList(300), &row{}
	var version atomic.Int64
	list.spoil = func(p *catalog.Product) {
		if p.ID == "p-00010" {
			p.Name = fmt.Sprint("Version ", version.Load())
		}
	}
	all := make([]*process, 3)
	for n := range all {
		all[n] = start(t, shared, func(s catalogsync.Snapshots) *catalogsync.Catalog {
			return list.copy(t, catalogsync.Config{Snapshots: s, PageSize: 10, Limiter: pause(delay)})
		})
		time.Sleep(20 * time.Second)
	}
	table, revision := map[string]catalogsync.Record{}, int64(0) // of a reader that follows replica 0
	follow := func() {
		for r := range all[0].Changes(revision) {
			table[r.Product.ID], revision = r, r.Revision
		}
	}
	for n := range 24 * 6 {
		time.Sleep(10 * time.Minute)
		follow()
		if n%2 == 0 && n < 22*6 {
			version.Add(1)
			list.change(func(ids []string) []string { return append(ids[1:], fmt.Sprint("new-", n)) })
		}
		if n%27 == 20 {
			all[0].kill()
			all[0] = start(t, shared, func(s catalogsync.Snapshots) *catalogsync.Catalog {
				return list.copy(t, catalogsync.Config{Snapshots: s, PageSize: 10, Limiter: pause(delay)})
			})
		}
	}
	synctest.Wait()
	walks := float64(list.lists) / 30
	t.Logf("%.1f walks in 24 hours, %d snapshots", walks, shared.version)
	assert.LessOrEqual(t, walks, 1.25*24)
	assert.GreaterOrEqual(t, walks, 20.)
	id := list.all()[7]
	require.NoError(t, all[1].HandleEvent(t.Context(), productEvent(id)))
	time.Sleep(3*time.Minute + 60*delay) // of a walk
	follow()
	want := list.all()
	slices.Sort(want)
	for n, p := range all {
		r, _ := p.Get(id)
		assert.False(t, r.DetailsAt.IsZero(), n)
		assert.Equal(t, want, stored(p.Catalog, catalogsync.PresencePresent), n)
		for r := range p.Changes(0) {
			if n == 0 {
				assert.Equal(t, r.Product, table[r.Product.ID].Product)
				assert.Equal(t, r.Presence, table[r.Product.ID].Presence)
			}
		}
		p.stop()
	}
}

// A snapshot by a clock that was ahead must not stop walks or keep a product's old content.
func TestSnapshotOfClockAhead(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, time.Minute, time.Hour, 24 * time.Hour, 365 * 24 * time.Hour} {
		shared, list := &row{}, newMovingList(30)
		var interrupted bool
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(ahead) // the clock of this process
			c := list.copy(t, catalogsync.Config{Snapshots: shared, PageSize: 10})
			mustSync(t, c)
			if interrupted = ahead == 24*time.Hour; interrupted {
				ctx, cancel := context.WithCancel(t.Context())
				list.before = onRequest(2, cancel)
				_, err := c.Sync(ctx)
				require.ErrorIs(t, err, context.Canceled)
				list.before = nil
			}
		})
		synctest.Test(t, func(t *testing.T) {
			before := list.requests()
			time.Sleep(time.Minute)
			list.spoil = func(p *catalog.Product) { p.Name = "New" }
			p := start(t, shared, func(s catalogsync.Snapshots) *catalogsync.Catalog {
				return list.copy(t, catalogsync.Config{Snapshots: s, PageSize: 10})
			})
			time.Sleep(12 * time.Hour)
			walks := (list.requests() - before) / 3
			assert.GreaterOrEqual(t, walks, 10, ahead)
			assert.LessOrEqual(t, walks, 13, ahead)
			r, _ := p.Get("p-00001")
			assert.Equal(t, "New", r.Product.Name, ahead)
			result, err := p.Search(catalogsync.SearchOptions{Query: "new"})
			require.NoError(t, err)
			assert.GreaterOrEqual(t, result.Age, time.Duration(0))
			assert.LessOrEqual(t, result.Age, 70*time.Minute, ahead)
			p.stop()
		})
	}
}

// Processes are killed at any moment, while products change and half of the webhooks are lost. No
// product of the platform may be gone. In the end, each product must have its current description.
func TestKilledProcessLosesNoProduct(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for seed := range testsize.Of(20, 1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { playKills(t, rand.New(rand.NewPCG(uint64(seed), 50))) })
		})
	}
}

func playKills(t *testing.T, random *rand.Rand) {
	platform, shared := dispensarytest.New(t, dispensarytest.WithInMemory()), &row{}
	described := map[string]string{}
	begin := func() *process {
		client := platform.Client(model.User{}) // with a fresh token
		return start(t, shared, func(s catalogsync.Snapshots) *catalogsync.Catalog {
			c, err := catalogsync.New(catalogsync.Config{Catalog: client.Catalog, Events: client.Events, Snapshots: s, PageSize: 5, Limiter: pause(random.IntN(2000)) * pause(time.Millisecond)})
			require.NoError(t, err)
			return c
		})
	}
	for range 6 {
		p := begin()
		for range random.IntN(8) {
			time.Sleep(time.Duration(random.IntN(60_000)) * time.Millisecond)
			products := platform.Products.All()
			product := products[random.IntN(len(products))]
			if random.IntN(4) == 0 {
				require.NoError(t, platform.Products.Remove(product.ID))
				delete(described, product.ID)
				continue
			}
			text := fmt.Sprintf("<p>%d</p>", random.Int())
			_, e, err := platform.Products.Describe(product.ID, text)
			require.NoError(t, err)
			described[product.ID] = text
			if random.IntN(2) == 0 {
				require.NoError(t, p.HandleEvent(t.Context(), events.ProductEvent{Event: events.Event{ID: e.ID}, Object: catalog.Product{ID: product.ID}}))
			}
		}
		time.Sleep(time.Duration(random.IntN(90_000)) * time.Millisecond)
		p.kill()
	}
	p := begin()
	time.Sleep(5 * time.Minute)
	for id, want := range described {
		r, _ := p.Get(id)
		assert.Equal(t, want, r.Product.DescriptionHTML, id)
	}
	for _, product := range platform.Products.All() {
		r, _ := p.Get(product.ID)
		require.NotEqual(t, catalogsync.PresenceGone, r.Presence, product.ID)
	}
	p.stop()
}

// The newer read must win, also over the response to an older request that arrives later.
func TestNewerReadWins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, list, other := &row{}, newMovingList(3), newMovingList(4)
		c := list.copy(t, catalogsync.Config{Snapshots: shared})
		mustSync(t, c)
		second := other.copy(t, catalogsync.Config{Snapshots: shared})
		other.spoil, other.detail = func(p *catalog.Product) { p.Name = "Newer" }, "Newer"
		list.after = func(*http.Request) error {
			time.Sleep(time.Minute)
			mustSync(t, second)
			request(t, second, "p-00001")
			require.NoError(t, second.FetchRequested(t.Context()))
			return c.Load(t.Context())
		}
		request(t, c, "p-00001")
		require.NoError(t, c.FetchRequested(t.Context()))
		one, _ := c.Get("p-00001")
		assert.Equal(t, "Newer", one.Product.DescriptionHTML)
		mustSync(t, c)
		two, _ := c.Get("p-00002")
		assert.Equal(t, "Newer", two.Product.Name)
		three, _ := c.Get("p-00003")
		assert.Equal(t, catalogsync.PresencePresent, three.Presence, "the other process has seen it during this walk")
		for range c.Changes(0) {
			break
		}
	})
}

// A gone product must become missing if the platform has its id, also in another process.
func TestGoneProductReturns(t *testing.T) {
	t.Parallel()
	shared, list := &row{}, newMovingList(3)
	c := list.copy(t, catalogsync.Config{Snapshots: shared})
	mustSync(t, c)
	list.change(func(ids []string) []string { return ids[1:] })
	mustSync(t, c)
	mustSync(t, c)
	second := list.copy(t, catalogsync.Config{Snapshots: shared})
	require.NoError(t, second.Load(t.Context()))
	assert.Equal(t, []string{"p-00000"}, stored(second, catalogsync.PresenceGone))
	list.hidden = []string{"p-00000"}
	request(t, c, "p-00000")
	require.NoError(t, c.FetchRequested(t.Context()))
	require.NoError(t, second.Load(t.Context()))
	for _, one := range []*catalogsync.Catalog{c, second} {
		assert.Equal(t, []string{"p-00000"}, stored(one, catalogsync.PresenceMissing))
	}
}

// Two processes can save at the same time. Then the older content must not win, and the lost content
// must be saved again.
func TestOverwrittenSnapshotIsSavedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, list := &row{}, newMovingList(3)
		c := list.copy(t, catalogsync.Config{Snapshots: shared})
		mustSync(t, c)
		other := &row{document: shared.document}
		time.Sleep(time.Minute)
		list.spoil = func(p *catalog.Product) { p.Name = "Older" }
		mustSync(t, list.copy(t, catalogsync.Config{Snapshots: other}))
		time.Sleep(time.Minute)
		request(t, c, "p-00001")
		require.NoError(t, c.FetchRequested(t.Context()))
		_, err := shared.Save(t.Context(), other.document)
		require.NoError(t, err)
		require.NoError(t, c.FetchRequested(t.Context()))
		next := list.copy(t, catalogsync.Config{Snapshots: shared})
		require.NoError(t, next.Load(t.Context()))
		for id, want := range map[string]string{"p-00000": "Older", "p-00001": "Product p-00001"} {
			for _, one := range []*catalogsync.Catalog{c, next} {
				r, _ := one.Get(id)
				assert.Equal(t, want, r.Product.Name)
			}
		}
	})
}

// A killed process can have shown changes that it did not save. The revisions of the next process must
// be higher.
func TestRevisionsGrowAfterKill(t *testing.T) {
	t.Parallel()
	list, shared := newMovingList(10), &row{}
	p := &process{}
	c := list.copy(t, catalogsync.Config{Snapshots: mortal{shared, p}})
	mustSync(t, c)
	p.dead.Store(true)
	list.change(func(ids []string) []string { return append(ids, "p-new", "p-newer") })
	_, err := c.Sync(t.Context())
	require.ErrorIs(t, err, assert.AnError)
	revision := c.State().Revision
	list.change(func(ids []string) []string { return append(ids, "p-newest") })
	c = list.copy(t, catalogsync.Config{Snapshots: shared})
	mustSync(t, c)
	assert.Len(t, slices.Collect(c.Changes(revision)), 3)
}

// A walk with attributes must reach the other replicas.
func TestReplicasShareAttributes(t *testing.T) {
	t.Parallel()
	shared := &row{}
	f := newFixture(t, catalogsync.Config{Snapshots: shared})
	mustSync(t, f.c)
	reader, err := catalogsync.New(catalogsync.Config{Snapshots: shared})
	require.NoError(t, err)
	require.NoError(t, reader.Load(t.Context()))
	c, err := catalogsync.New(catalogsync.Config{Catalog: f.platform.Client(model.User{}).Catalog, Filters: true, Snapshots: shared})
	require.NoError(t, err)
	mustSync(t, c)
	require.NoError(t, reader.Load(t.Context()))
	for r := range c.Changes(0) {
		got, _ := reader.Get(r.Product.ID)
		assert.Equal(t, r.Attributes, got.Attributes)
	}
}

// A search must follow the walks, and after an event the next index. Run builds it once a minute.
func TestSearchFollowsCopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, shared := newMovingList(250), &row{}
		p := start(t, shared, func(s catalogsync.Snapshots) *catalogsync.Catalog {
			return list.copy(t, catalogsync.Config{Snapshots: s})
		})
		empty := list.copy(t, catalogsync.Config{})
		require.NoError(t, empty.Load(t.Context()))
		_, err := empty.Search(catalogsync.SearchOptions{Query: "p-00007"})
		require.ErrorIs(t, err, catalogsync.ErrNotLoaded)
		assert.Equal(t, 503, api.ProblemOf(err).Status)
		synctest.Wait()
		age := func(query string, hits int) time.Duration {
			t.Helper()
			result, err := p.Search(catalogsync.SearchOptions{Query: query})
			require.NoError(t, err)
			assert.Len(t, result.Hits, hits)
			return result.Age
		}
		assert.Zero(t, age("p-00007", 1))
		time.Sleep(40 * time.Minute)
		assert.Equal(t, 40*time.Minute, age("p-00007", 1))
		list.change(func(ids []string) []string { return append(ids, "p-new") })
		require.NoError(t, p.HandleEvent(t.Context(), productEvent("p-new")))
		synctest.Wait()
		_, is := p.Get("p-new")
		assert.True(t, is, "at once")
		age("p-new", 0)
		time.Sleep(time.Minute + 10*time.Second)
		age("p-new", 1)
		list.change(func(ids []string) []string { return ids[1:] })
		time.Sleep(30 * time.Minute)
		assert.Less(t, age("p-00000", 1), 15*time.Minute, "a missing product is found")
		time.Sleep(70 * time.Minute)
		age("p-00000", 0)
		require.NoError(t, p.HandleEvent(t.Context(), productEvent("p-00002")))
		synctest.Wait()
		p.stop()
		next := list.copy(t, catalogsync.Config{Snapshots: shared})
		require.NoError(t, next.Load(t.Context()))
		r, _ := next.Get("p-00002")
		assert.False(t, r.DetailsAt.IsZero(), "Run saves at its end")
	})
}

// A process without a Config.Catalog follows the others, from an interrupted walk on.
func TestCatalogFollowsSnapshots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, shared := newMovingList(30), &row{}
		ctx, cancel := context.WithCancel(t.Context())
		list.before = onRequest(2, cancel)
		_, err := list.copy(t, catalogsync.Config{Snapshots: shared, PageSize: 10}).Sync(ctx)
		require.ErrorIs(t, err, context.Canceled)
		list.before = nil
		reader := start(t, shared, func(s catalogsync.Snapshots) *catalogsync.Catalog {
			c, err := catalogsync.New(catalogsync.Config{Snapshots: s})
			require.NoError(t, err)
			return c
		})
		synctest.Wait()
		mustSync(t, list.copy(t, catalogsync.Config{Snapshots: shared}))
		time.Sleep(2 * time.Minute)
		assert.Len(t, names(t, reader.Catalog, catalogsync.SearchOptions{Query: "p-00029"}), 1)
		assert.Equal(t, reader.State().Complete, reader.State().Newest)
		_, err = reader.Sync(t.Context())
		require.ErrorIs(t, err, api.ErrArgument)
		require.ErrorIs(t, reader.FetchRequested(t.Context()), api.ErrArgument)
		reader.stop()
	})
}

// Sync must not replace a file that is not a snapshot of this release.
func TestSyncKeepsForeignFile(t *testing.T) {
	t.Parallel()
	list := newMovingList(30)
	for content, want := range map[string]string{"my notes about the catalog": "gzip: invalid header", string(zipped(t, `{"format":2}`)): "format 2 of another release"} {
		path := filepath.Join(t.TempDir(), "catalog")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		c := list.copy(t, catalogsync.Config{Snapshots: catalogsync.File(path)})
		require.ErrorContains(t, c.Load(t.Context()), want)
		walk, err := c.Sync(t.Context())
		require.ErrorContains(t, err, want)
		assert.False(t, walk.CompletedAt.IsZero(), "the copy in memory is complete")
		assert.Len(t, names(t, c, catalogsync.SearchOptions{Query: "p-00001"}), 1)
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, content, string(kept))
	}
}

// Run must continue without snapshots while they fail, and save one later.
func TestRunSurvivesFailingSnapshots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, shared := newMovingList(30), &row{}
		var log bytes.Buffer
		p := start(t, shared, func(s catalogsync.Snapshots) *catalogsync.Catalog {
			return list.copy(t, catalogsync.Config{Snapshots: s, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		})
		p.dead.Store(true)
		time.Sleep(5 * time.Minute)
		assert.Equal(t, 1, list.requests())
		assert.Len(t, names(t, p.Catalog, catalogsync.SearchOptions{Query: "p-00001"}), 1)
		p.dead.Store(false)
		time.Sleep(10 * time.Minute)
		p.stop()
		assert.Positive(t, shared.version)
		assert.Contains(t, log.String(), `msg="could not exchange the snapshot of the catalog"`)
		assert.LessOrEqual(t, strings.Count(log.String(), "\n"), 8)
	})
}

// A reader must never see half a file.
func TestFileIsReplacedAsWhole(t *testing.T) {
	t.Parallel()
	file := catalogsync.File(filepath.Join(t.TempDir(), "catalog"))
	_, version, err := file.Load(t.Context(), "")
	require.NoError(t, err)
	assert.Empty(t, version)
	var writers sync.WaitGroup
	for n := range 2 {
		writers.Go(func() {
			for range 50 {
				_, err := file.Save(t.Context(), bytes.Repeat([]byte{byte(n)}, 1_000_000+n))
				assert.NoError(t, err)
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		document, _, err := file.Load(t.Context(), "")
		require.NoError(t, err)
		if len(document) > 0 {
			require.Len(t, document, 1_000_000+int(document[0]))
		}
	}
	saved, err := file.Save(t.Context(), []byte("last"))
	require.NoError(t, err)
	document, version, err := file.Load(t.Context(), saved)
	require.NoError(t, err)
	assert.Nil(t, document)
	assert.Equal(t, saved, version)
	_, err = catalogsync.File(filepath.Join(t.TempDir(), "absent", "catalog")).Save(t.Context(), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}
