package catalog_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
)

// A walk over the whole catalog. It fetches pages ahead of the loop, which gets
// the products in order all the same.
func ExampleProducts_All() {
	platform, client := connect()
	defer platform.Close()

	available := 0
	options := catalog.ProductListOptions{Paging: dispensary.Paging{PageSize: 10, Prefetch: 4}}
	for product, err := range client.Catalog.Products.All(context.Background(), options) {
		if err != nil {
			log.Fatal(err)
		}
		if product.Status == catalog.Available {
			available++
		}
	}
	fmt.Println(available, "products are available")
	// Output: 41 products are available
}

// A single product has more than lists do: variants, description and dosages.
func ExampleProducts_Get() {
	platform, client := connect()
	defer platform.Close()

	id := platform.Products.All()[2].ID
	product, err := client.Catalog.Products.Get(context.Background(), id, catalog.ProductGetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(product.Name, "in", len(product.Variants), "sizes")
	fmt.Println("suggested:", product.Dosage.Amount, product.Dosage.Frequency)
	if custom := product.CustomDosage; custom != nil { // the practitioner's own
		fmt.Println("preferred:", custom.Amount, custom.Frequency)
	}
	// Output:
	// Ashwagandha Root in 2 sizes
	// suggested: 1 once per day
	// preferred: 2 every morning
}

// All conditions of a search apply together.
func ExampleProducts_Search() {
	platform, client := connect()
	defer platform.Close()

	page, err := client.Catalog.Products.Search(context.Background(), catalog.ProductSearchOptions{
		Query:       "probiotic",
		AllergenIDs: platform.Products.All()[35].AllergenIDs[:1],
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, product := range page.Items {
		fmt.Println(product.Name, product.PrimaryVariant.MSRP)
	}
	// Output: Probiotic Kids 25.75
}

func ExampleProducts_SimilarAll() {
	platform, client := connect()
	defer platform.Close()

	id := platform.Products.All()[27].ID // Magnesium Glycinate
	options := catalog.ProductListOptions{Paging: dispensary.Paging{MaxItems: 2}}
	for product, err := range client.Catalog.Products.SimilarAll(context.Background(), id, options) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(product.Name)
	}
	// Output:
	// Calm Magnesium Powder
	// Electrolyte Packets
}
