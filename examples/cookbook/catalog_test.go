package cookbook_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/webhook"
)

// The whole catalog is kept beside the program's own tables, which follow its changes.
func Example_copyTheCatalog() {
	platform := start()
	defer platform.Close()
	folder, err := os.MkdirTemp("", "catalog")
	must(err)
	defer func() { _ = os.RemoveAll(folder) }()
	ctx, client := context.Background(), platform.Client(platform.Users()[0])

	db, err := sqlstore.OpenSQLite(ctx, "sqlite", filepath.Join(folder, "catalog.db")) // or your PostgreSQL
	must(err)
	defer func() { _ = db.Close() }()
	must(sqlstore.Migrate(ctx, db, sqlstore.SQLite, sqlstore.Config{}))
	store, err := sqlstore.New(db, sqlstore.SQLite, sqlstore.Config{})
	must(err)
	budget, err := dispensary.NewRateLimiter(300, time.Minute) // what the catalog may take of your requests
	must(err)
	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{Catalog: client.Catalog, Store: store, Limiter: budget, Prefetch: 4})
	must(err)
	var router webhook.Router // of your inbox
	router.OnProductCreated(syncer.HandleEvent)
	router.OnProductUpdated(syncer.HandleEvent)
	router.OnProductDescriptionUpdated(syncer.HandleEvent)

	names, seen := map[string]string{}, int64(0) // your table, and the revision it is at: one transaction
	follow := func() (changed int) {
		for {
			records, err := store.Changes(ctx, seen, 100)
			must(err)
			if len(records) == 0 {
				return changed
			}
			for _, r := range records {
				if names[r.Product.ID], seen = r.Product.Name, r.Revision; r.Presence == catalogsync.Gone {
					delete(names, r.Product.ID)
				}
				changed++
			}
		}
	}
	_, err = syncer.Sync(ctx) // a program calls Run, which does this every hour, and reads what events name
	must(err)
	follow()
	fmt.Println("all are there:", len(names) == len(platform.Products.All()))

	product, event, err := platform.Products.Update(platform.Products.All()[0].ID, model.ProductChange{Name: new("Kelp and Dulse")})
	must(err)
	received, err := client.Events.Get(ctx, event.ID)
	must(err)
	must(router.Dispatch(ctx, *received))
	must(syncer.FetchRequested(ctx))
	fmt.Println(follow(), "has changed:", names[product.ID])
	// Output:
	// all are there: true
	// 1 has changed: Kelp and Dulse
}
