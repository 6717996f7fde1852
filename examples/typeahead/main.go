// Typeahead is a page with a search box over the dispensary's catalog:
//
//	go run ./examples/typeahead
//
// It starts a fake of the platform beside itself; a real program makes its client with
// dispensary.New. With scripts the products appear while one types, without when one
// presses the button. A product is read from the platform again when it is chosen.
//
// The catalog is kept in a SQLite file, so that only the very first start waits until it was
// read: later ones search what is there at once, while it is read again. Only the brands that
// the user's clinic may order are shown.
package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
	"github.com/dispensary-go/dispensary/dispensarytest"
)

func main() {
	folder, _ := os.UserCacheDir() // without one the file is in the current folder
	address := flag.String("addr", "127.0.0.1:8080", "address to listen on; a loopback address")
	file := flag.String("store", filepath.Join(folder, "dispensary-typeahead.db"), "file that the catalog is kept in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *address, *file, func(at string) { fmt.Println("Open", at, "in a browser; end with Ctrl-C.") }); err != nil {
		fmt.Fprintln(os.Stderr, "typeahead:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It calls ready with its address once it listens.
func run(ctx context.Context, address, file string, ready func(address string)) (err error) {
	platform, err := dispensarytest.Start(dispensarytest.WithSeed(1)) // which has the same products at each start
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	user := platform.Users()[0]
	c, err := openCatalog(ctx, platform.Client(user), user.ClinicID, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: c.routes(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	ready("http://" + listener.Addr().String())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(ending)
}

// The locks of the file then survive code that reads the file, see [sqlstore.OpenSQLite].
var _, _ = sqlite.OFDLocking(true)

// localCatalog is the catalog in a file, for the users of a clinic.
type localCatalog struct {
	client   *dispensary.Client
	clinicID string
	db       *sql.DB
	searcher *catalogsync.Searcher
	brands   *catalogsync.BrandCache
	close    func() error
}

// openCatalog opens the catalog, and keeps it up to date until it is closed.
func openCatalog(ctx context.Context, client *dispensary.Client, clinicID, file string) (_ *localCatalog, err error) {
	db, err := sqlstore.OpenSQLite(ctx, "sqlite", file)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = db.Close()
		}
	}()
	if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite, sqlstore.Config{}); err != nil {
		return nil, err
	}
	store, err := sqlstore.New(db, sqlstore.SQLite, sqlstore.Config{})
	if err != nil {
		return nil, err
	}
	c := &localCatalog{client: client, clinicID: clinicID, db: db}
	if c.searcher, err = catalogsync.NewSearcher(catalogsync.SearcherConfig{Catalog: client.Catalog}); err != nil {
		return nil, err
	}
	if c.brands, err = catalogsync.NewBrandCache(catalogsync.BrandCacheConfig{}); err != nil {
		return nil, err
	}
	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{Catalog: client.Catalog, Store: store, Prefetch: 4, Logger: slog.Default()})
	if err != nil {
		return nil, err
	}
	err = c.searcher.LoadStore(ctx, store)
	if errors.Is(err, catalogsync.ErrNotLoaded) { // the very first start
		if _, err = syncer.Sync(ctx); err == nil {
			err = c.searcher.LoadStore(ctx, store)
		}
	}
	if err != nil {
		return nil, err
	}
	c.update(ctx, syncer, store)
	return c, nil
}

// update reads the catalog every hour, and searches what was read soon after.
func (c *localCatalog) update(ctx context.Context, syncer *catalogsync.Syncer, store catalogsync.Store) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = syncer.Run(ctx) }) // until ctx ends; it logs what fails
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Second):
			}
			if err := c.searcher.LoadStore(ctx, store); err != nil && ctx.Err() == nil {
				slog.ErrorContext(ctx, "catalog", "error", err)
			}
		}
	})
	c.close = func() error {
		cancel()
		running.Wait()
		return c.db.Close()
	}
}

// permitted returns the brands that the clinic may order. If they cannot be read all are shown,
// and the page does not say that they are the clinic's.
func (c *localCatalog) permitted(r *http.Request) *catalogsync.PermittedBrands {
	brands, err := c.brands.Get(r.Context(), c.clinicID, c.client.Catalog.Brands)
	if err != nil && r.Context().Err() == nil {
		slog.ErrorContext(r.Context(), "brands", "error", err)
	}
	return brands
}

var (
	//go:embed page.html
	pageText string
	page     = template.Must(template.New("page").Parse(pageText))

	//go:embed script.js
	script []byte
)

// view is what the page shows: what was found, or the variant that was chosen.
type view struct {
	Query, Problem string
	Searched       bool
	Result         catalogsync.Result
	Chosen         *catalog.Variant
}

func (c *localCatalog) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /search", c.searcher.Handler(catalogsync.HandlerConfig{Permitted: c.permitted}))
	mux.HandleFunc("GET /script.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = w.Write(script) // fails only when the browser went away
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query().Get("q")
		result, err := c.searcher.Search(catalogsync.SearchOptions{Query: q, Permitted: c.permitted(r)})
		if err != nil {
			show(w, http.StatusBadRequest, view{Query: q, Problem: "That cannot be searched for. Type a few words only."})
			return
		}
		show(w, http.StatusOK, view{Query: q, Searched: q != "", Result: result})
	})
	mux.HandleFunc("GET /variants/{id}", func(w http.ResponseWriter, r *http.Request) {
		variant, err := c.searcher.Confirm(r.Context(), r.PathValue("id"))
		switch {
		case errors.Is(err, api.ErrNotFound):
			show(w, http.StatusNotFound, view{Problem: "The catalog does not have it any more."})
		case err != nil:
			slog.ErrorContext(r.Context(), "variant", "error", err)
			show(w, http.StatusBadGateway, view{Problem: "The catalog cannot be reached at the moment. Please try again."})
		default:
			show(w, http.StatusOK, view{Chosen: variant})
		}
	})
	return mux
}

func show(w http.ResponseWriter, status int, v view) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; img-src data:; form-action 'self'")
	w.WriteHeader(status)
	_ = page.Execute(w, v) // fails only when the browser went away
}
