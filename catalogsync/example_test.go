package catalogsync_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/webhook"
)

// Search for every typed letter without a request, then read the variant again before it is
// prescribed.
func Example() {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer platform.Close()
	client, ctx := platform.Client(model.User{}), context.Background() // a program gets its client from dispensary.New

	products, err := catalogsync.New(catalogsync.Config{Catalog: client.Catalog, Prefetch: 4}) // with Snapshots, a restart reads nothing
	if err != nil {
		log.Fatal(err)
	}
	if _, err := products.Sync(ctx); err != nil { // a service calls Run
		log.Fatal(err)
	}
	var chosen catalogsync.Hit
	for _, typed := range []string{"magn", "glyc magn", "magnezium gly", "qurecetin"} {
		result, err := products.Search(catalogsync.SearchOptions{Query: typed, Limit: 2})
		if err != nil {
			log.Fatal(err)
		}
		for _, hit := range result.Hits {
			fmt.Printf("%s: %s, %s\n", typed, hit.Name, hit.SKU)
		}
		chosen = result.Hits[0]
	}
	variant, err := client.Catalog.Variants.Get(ctx, chosen.VariantID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(chosen.Name, "is", variant.Status)
	// Output:
	// magn: Magnesium Glycinate, NBN-1042-90
	// magn: Calm Magnesium Powder, NBN-1011-30
	// glyc magn: Magnesium Glycinate, NBN-1042-90
	// magnezium gly: Magnesium Glycinate, NBN-1042-90
	// qurecetin: Quercetin & Bromelain, STC-1056-60
	// Quercetin & Bromelain is available
}

// Two clinics search one catalog. The second may order a brand that the first may not.
func ExampleBrandCache() {
	platform, err := dispensarytest.Start(dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Clinics: 2}}))
	if err != nil {
		log.Fatal(err)
	}
	defer platform.Close()
	ctx := context.Background()
	products, err := catalogsync.New(catalogsync.Config{Catalog: platform.Client(model.User{}).Catalog})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := products.Sync(ctx); err != nil {
		log.Fatal(err)
	}
	var cache catalogsync.BrandCache
	first, second := platform.Users()[0], platform.Users()[3]
	for _, user := range []model.User{first, second} {
		permitted, err := cache.Get(ctx, user.ClinicID, platform.Client(user).Catalog.Brands)
		if err != nil {
			log.Print(err) // the products of all brands are shown then
		}
		result, err := products.Search(catalogsync.SearchOptions{Query: "research", Permitted: permitted})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(result.Hits), "found, of the clinic's brands only:", result.PermittedOnly)
	}
	// Output:
	// 0 found, of the clinic's brands only: true
	// 1 found, of the clinic's brands only: true
}

// Copy the catalog with walks and events, and copy its changes into your own tables.
func ExampleCatalog_Changes() {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer platform.Close()
	client, ctx := platform.Client(model.User{}), context.Background() // a program gets its client from dispensary.New
	products, err := catalogsync.New(catalogsync.Config{Catalog: client.Catalog, Prefetch: 4})
	if err != nil {
		log.Fatal(err)
	}
	router := &webhook.Router{}
	router.OnProductCreated(products.HandleEvent)
	router.OnProductUpdated(products.HandleEvent)
	router.OnProductDescriptionUpdated(products.HandleEvent)

	var revision int64 // kept beside the program's own tables
	copyChanges := func() (changed []catalogsync.Record) {
		for record := range products.Changes(revision) {
			changed, revision = append(changed, record), record.Revision
		}
		return changed
	}
	if _, err := products.Sync(ctx); err != nil { // a program calls Run, which does all of this
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
	if err := products.FetchRequested(ctx); err != nil {
		log.Fatal(err)
	}
	for _, record := range copyChanges() {
		fmt.Println(record.Product.Name, "is", record.Presence)
	}
	// Output:
	// 44 products
	// Zinc Forte is present
}
