package catalog_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// connect starts a fake platform with its small data set, and returns a client with the token
// of its first practitioner. Your program gets its client from dispensary.New.
func connect() (*dispensarytest.Server, *dispensary.Client) {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	return platform, platform.Client(model.User{})
}

func ExampleAllergens_List() {
	platform, client := connect()
	defer platform.Close()

	for allergen, err := range client.Catalog.Allergens.List().All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(allergen.Name)
	}
	// Output:
	// Dairy Free
	// Egg Free
	// Gluten Free
	// Nut Free
	// Shellfish Free
	// Soy Free
}

// List brands that the clinic may order and that have products in stock.
func ExampleBrands_List() {
	platform, client := connect()
	defer platform.Close()

	page, err := client.Catalog.Brands.List(catalog.BrandListOptions{
		Available: true, ClinicPermitted: true,
	}).PageSize(3).Page(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, brand := range page.Items {
		fmt.Println(brand.Prefix, brand.Name)
	}
	fmt.Println(page.Meta.TotalCount, "in all, on", page.Meta.TotalPages, "pages")
	// Output:
	// ALR Alder & Rye
	// BFB Bluefern Botanics
	// CWL Clearwell Labs
	// 7 in all, on 3 pages
}

// Limit a long list of ingredients to the first three.
func ExampleIngredients_List() {
	platform, client := connect()
	defer platform.Close()

	for ingredient, err := range client.Catalog.Ingredients.List().Limit(3).All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ingredient.Name)
	}
	// Output:
	// Acetyl-L-Carnitine
	// Amylase
	// Ashwagandha
}

// Creating a practitioner requires the ID of a practitioner type: find it by its code.
func ExamplePractitionerTypes_List() {
	platform, client := connect()
	defer platform.Close()

	for kind, err := range client.Catalog.PractitionerTypes.List().All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		if kind.Code == "ND" {
			fmt.Println(kind.Description)
			break
		}
	}
	// Output: Naturopathic Doctor
}

func ExampleSupplementTypes_List() {
	platform, client := connect()
	defer platform.Close()

	for page, err := range client.Catalog.SupplementTypes.List().PageSize(5).Pages(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("page %d of %d: %d supplement types\n", page.Meta.CurrentPage, page.Meta.TotalPages, len(page.Items))
	}
	// Output:
	// page 1 of 2: 5 supplement types
	// page 2 of 2: 3 supplement types
}

func ExampleThirdPartyCertifications_Get() {
	platform, client := connect()
	defer platform.Close()

	product := platform.Products.All()[0]
	certification, err := client.Catalog.ThirdPartyCertifications.Get(context.Background(), product.CertificationIDs[0])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(certification.Name)
	// Output: Heavy Metal Tested
}

// A variant is one size of a product. Plans and orders refer to variants.
func ExampleVariants_Get() {
	platform, client := connect()
	defer platform.Close()

	id := platform.Products.All()[0].VariantIDs[1]
	variant, err := client.Catalog.Variants.Get(context.Background(), id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(variant.Product.Name, "by", variant.Product.Brand.Name)
	fmt.Println(variant.Units, variant.UnitOfMeasure, "for", variant.MSRP, "-", variant.Availability)
	// Output:
	// Acetyl-L-Carnitine 500 by Clearwell Labs
	// 120 capsules for 54.15 - In Stock
}

// List the whole catalog. Prefetch requests pages ahead of the loop, which still gets the
// products in order.
func ExampleProducts_List() {
	platform, client := connect()
	defer platform.Close()

	available := 0
	for product, err := range client.Catalog.Products.List().PageSize(10).Prefetch(4).All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		if product.Status == catalog.StatusAvailable {
			available++
		}
	}
	fmt.Println(available, "products are available")
	// Output: 40 products are available
}

// A single product contains more fields than lists: variants, description and dosages.
func ExampleProducts_Get() {
	platform, client := connect()
	defer platform.Close()

	id := platform.Products.All()[2].ID
	product, err := client.Catalog.Products.Get(context.Background(), id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(product.Name, "in", len(product.Variants), "sizes")
	fmt.Println("suggested:", product.Dosage.Amount, product.Dosage.Frequency)
	if custom := product.CustomDosage; custom != nil { // the practitioner's own dosage
		fmt.Println("preferred:", custom.Amount, custom.Frequency)
	}
	// Output:
	// Ashwagandha Root in 2 sizes
	// suggested: 1 once per day
	// preferred: 2 every morning
}

// All conditions of a search must match.
func ExampleProducts_Search() {
	platform, client := connect()
	defer platform.Close()

	page, err := client.Catalog.Products.Search(catalog.ProductSearchOptions{
		Query:       "probiotic",
		AllergenIDs: platform.Products.All()[35].AllergenIDs[:1],
	}).Page(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, product := range page.Items {
		fmt.Println(product.Name, product.PrimaryVariant.MSRP)
	}
	// Output: Probiotic Kids 25.75
}

func ExampleProducts_Similar() {
	platform, client := connect()
	defer platform.Close()

	id := platform.Products.All()[27].ID // Magnesium Glycinate
	for product, err := range client.Catalog.Products.Similar(id).Limit(2).All(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(product.Name)
	}
	// Output:
	// Calm Magnesium Powder
	// Electrolyte Packets
}
