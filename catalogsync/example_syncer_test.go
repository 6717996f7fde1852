package catalogsync_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/webhook"
)

// Copy the catalog into a store with walks and events, and copy its changes into your own
// tables.
func ExampleSyncer() {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer platform.Close()
	client, ctx := platform.Client(model.User{}), context.Background() // a program gets its client from dispensary.New
	store := catalogsync.NewMemoryStore()                              // or one of package sqlstore

	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{Catalog: client.Catalog, Store: store, Prefetch: 4})
	if err != nil {
		log.Fatal(err)
	}
	router := &webhook.Router{}
	router.OnProductCreated(syncer.HandleEvent)
	router.OnProductUpdated(syncer.HandleEvent)
	router.OnProductDescriptionUpdated(syncer.HandleEvent)

	var revision int64 // kept beside the program's own tables
	copyChanges := func() (changed []catalogstore.Record) {
		for {
			records, err := store.Changes(ctx, revision, 100)
			if err != nil {
				log.Fatal(err)
			}
			if len(records) == 0 {
				return changed
			}
			changed, revision = append(changed, records...), records[len(records)-1].Revision
		}
	}
	if _, err := syncer.Sync(ctx); err != nil { // a program calls Run, which does all of this
		log.Fatal(err)
	}
	fmt.Println(len(copyChanges()), "products")

	_, event, err := platform.Products.Update(platform.Products.All()[0].ID, model.ProductUpdate{Name: new("Zinc Forte")})
	if err != nil {
		log.Fatal(err)
	}
	received, err := client.Events.Get(ctx, event.ID) // as a webhook brings it
	if err != nil {
		log.Fatal(err)
	}
	if err := router.Dispatch(ctx, *received); err != nil {
		log.Fatal(err)
	}
	if err := syncer.FetchRequested(ctx); err != nil {
		log.Fatal(err)
	}
	for _, record := range copyChanges() {
		fmt.Println(record.Product.Name, "is", record.Presence)
	}
	// Output:
	// 44 products
	// Zinc Forte is present
}
