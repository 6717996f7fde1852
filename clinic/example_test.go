package clinic_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// connect starts a platform with its small world, and returns a client that calls
// as its first practitioner. A program gets its client from dispensary.New.
func connect() (*dispensarytest.Server, *dispensary.Client) {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	return platform, platform.Client(model.User{})
}

func ExampleService_Get() {
	platform, client := connect()
	defer platform.Close()

	practice, err := client.Clinic.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(practice.Name)
	fmt.Println(practice.PatientCount, "patients,", practice.PractitionerCount, "practitioners")
	fmt.Printf("%g %% off every order\n", float64(practice.Discount))
	// Output:
	// Maple Hollow Integrative Clinic
	// 5 patients, 2 practitioners
	// 10 % off every order
}

func ExampleAddresses_All() {
	platform, client := connect()
	defer platform.Close()

	patientID := platform.Patients.All()[1].ID
	for address, err := range client.Clinic.Addresses.All(context.Background(), patientID, clinic.AddressListOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(address.Address1, address.Address2)
		fmt.Println(address.City, address.State, address.Zipcode)
	}
	// Output:
	// 112 Example Street Unit 4
	// Portland OR 97202
}

// A clinic sorts products into its categories.
func ExampleCategories_ProductAll() {
	platform, client := connect()
	defer platform.Close()
	ctx := context.Background()

	page, err := client.Clinic.Categories.List(ctx, clinic.CategoryListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	category := page.Items[7]
	fmt.Println(category.Name + ":")
	for product, err := range client.Clinic.Categories.ProductAll(ctx, category.ID, clinic.CategoryListOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("-", product.Name)
	}
	// Output:
	// Sleep:
	// - Chamomile Evening Drops
	// - Lavender Night Gels
	// - Magnesium Glycinate
	// - Melatonin Strips
	// - Sleep Formula
}

// The orders that followed from one treatment plan, the latest first.
func ExampleOrders_All() {
	platform, client := connect()
	defer platform.Close()

	plan := platform.Plans.All()[0]
	options := clinic.OrderListOptions{
		TreatmentPlanID: plan.ID,
		CompletedAt:     dispensary.DateAfter(dispensary.Date{Year: 2020, Month: 1, Day: 1}),
		SortBy:          clinic.OrdersByCompletion,
		Order:           dispensary.Descending,
	}
	for order, err := range client.Clinic.Orders.All(context.Background(), options) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(order.OrderNumber, order.PaymentTotal, len(order.VariantIDs), "variants")
	}
	// Output: R410000001 88.15 2 variants
}
