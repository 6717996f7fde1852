// Typeahead is a page with a search box over the dispensary's catalog:
//
//	go run ./examples/typeahead
//
// It starts a fake of the platform beside itself; a real program makes its client with
// dispensary.New. With scripts the products appear while one types, without when one
// presses the button. A product is read from the platform again when it is chosen.
package main

import (
	"context"
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
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func main() {
	address := flag.String("addr", "127.0.0.1:8080", "address to listen on; a loopback address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *address, func(at string) { fmt.Println("Open", at, "in a browser; end with Ctrl-C.") }); err != nil {
		fmt.Fprintln(os.Stderr, "typeahead:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It calls ready with its address once it listens.
func run(ctx context.Context, address string, ready func(address string)) (err error) {
	platform, err := dispensarytest.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	searcher, err := catalogsync.NewSearcher(catalogsync.SearcherConfig{Catalog: platform.Client(model.User{}).Catalog})
	if err != nil {
		return err
	}
	if err := searcher.Load(ctx, catalogsync.LoadOptions{Prefetch: 4}); err != nil {
		return err
	}
	go reload(ctx, searcher)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: routes(searcher), ReadHeaderTimeout: 5 * time.Second}
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

// reload reads the catalog again every hour. While it cannot be read, results grow older.
func reload(ctx context.Context, searcher *catalogsync.Searcher) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Hour):
		}
		if err := searcher.Load(ctx, catalogsync.LoadOptions{Prefetch: 4}); err != nil {
			slog.ErrorContext(ctx, "catalog", "error", err)
		}
	}
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
	Hits           []catalogsync.Hit
	Chosen         *catalog.Variant
}

func routes(searcher *catalogsync.Searcher) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /search", searcher.Handler(catalogsync.HandlerConfig{}))
	mux.HandleFunc("GET /script.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = w.Write(script) // fails only when the browser went away
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query().Get("q")
		result, err := searcher.Search(catalogsync.SearchOptions{Query: q})
		if err != nil {
			show(w, http.StatusBadRequest, view{Query: q, Problem: "That cannot be searched for. Type a few words only."})
			return
		}
		show(w, http.StatusOK, view{Query: q, Searched: q != "", Hits: result.Hits})
	})
	mux.HandleFunc("GET /variants/{id}", func(w http.ResponseWriter, r *http.Request) {
		variant, err := searcher.Confirm(r.Context(), r.PathValue("id"))
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
