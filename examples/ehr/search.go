package main

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalogsync"
)

// products is the catalog of one country in memory. It is searched on every keystroke, without a request to
// the platform.
type products struct {
	mu      sync.Mutex // held during a copy of the catalog
	read    time.Time
	current *catalogsync.Catalog
}

// get returns the catalog. It copies the catalog with the client of the first user, and again with that of
// another one if the copy is older than an hour.
func (p *products) get(ctx context.Context, client *dispensary.Client) (*catalogsync.Catalog, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.read) < time.Hour {
		return p.current, nil
	}
	next, err := catalogsync.New(catalogsync.Config{Catalog: client.Catalog, Prefetch: 4, Logger: slog.Default()})
	if err == nil {
		_, err = next.Sync(ctx)
	}
	switch {
	case err == nil:
		p.read, p.current = time.Now(), next
	case p.current == nil:
		return nil, err
	default: // the old catalog is better than no search
		slog.ErrorContext(ctx, "catalog", "error", err)
	}
	return p.current, nil
}

// permitted returns the brands that the user's clinic may order. If it cannot load them, the page shows all
// brands and does not claim that the clinic may order them.
func (e *ehr) permitted(ctx context.Context, u user, client *dispensary.Client) *catalogsync.PermittedBrands {
	brands, err := e.brands.Get(ctx, u.Account.Clinic.ID, client.Catalog.Brands)
	if err != nil && ctx.Err() == nil {
		slog.ErrorContext(ctx, "brands", "error", err)
	}
	return brands
}

// search responds to the script of the page with JSON.
func (e *ehr) search(w http.ResponseWriter, r *http.Request, u user, client *dispensary.Client) error {
	products, err := e.products[u.Environment].get(r.Context(), client)
	if err == nil {
		products.Handler(catalogsync.HandlerConfig{Permitted: func(r *http.Request) *catalogsync.PermittedBrands {
			return e.permitted(r.Context(), u, client)
		}}).ServeHTTP(w, r)
	}
	return err
}

// catalog is the search page. Without scripts it has a button.
func (e *ehr) catalog(w http.ResponseWriter, r *http.Request, u user, client *dispensary.Client) error {
	products, err := e.products[u.Environment].get(r.Context(), client)
	if err != nil {
		return err
	}
	query := r.FormValue("q")
	result, err := products.Search(catalogsync.SearchOptions{Query: query, Permitted: e.permitted(r.Context(), u, client)})
	if err != nil {
		return show(w, http.StatusBadRequest, "Catalog", u, map[string]any{"Query": query, "Problem": "Type a few words only."})
	}
	return show(w, http.StatusOK, "Catalog", u, map[string]any{"Query": query, "Result": result})
}

// variant reads a product again before it is prescribed, because it may be discontinued by now.
func (e *ehr) variant(w http.ResponseWriter, r *http.Request, u user, client *dispensary.Client) error {
	variant, err := client.Catalog.Variants.Get(r.Context(), r.PathValue("variant"))
	if err != nil {
		return err
	}
	return show(w, http.StatusOK, "Product", u, map[string]any{"Variant": variant, "Query": r.FormValue("q")})
}
