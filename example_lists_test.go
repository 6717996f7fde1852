package dispensary_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// A walk fetches pages as it goes: PageSize is how many items one request asks
// for, MaxItems how many the walk has, Prefetch how many pages are fetched at the
// same time.
func ExamplePaging() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	options := catalog.ProductListOptions{Paging: dispensary.Paging{PageSize: 2, MaxItems: 5, Prefetch: 3}}
	for product, err := range client.Catalog.Products.All(context.Background(), options) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(product.Name)
	}
	// Output:
	// Acetyl-L-Carnitine 500
	// Adaptogen Balance
	// Ashwagandha Root
	// B-Complex Active
	// Berberine Plus
}

// An interrupted walk goes on from the page it stopped at.
func ExamplePaging_resume() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	paging := dispensary.Paging{PageSize: 2}
	for page, err := range client.Clinic.Patients.Pages(context.Background(), clinic.PatientListOptions{Paging: paging}) {
		if err != nil {
			log.Fatal(err)
		}
		paging.Page = page.Meta.NextPage // to be kept somewhere safe
		break
	}
	for patient, err := range client.Clinic.Patients.All(context.Background(), clinic.PatientListOptions{Paging: paging}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(patient.FirstName)
	}
	// Output:
	// Priya
	// Alex
	// Walter
}

// Days are filtered in four ways.
func ExampleDateFilter() {
	first := dispensary.Date{Year: 2026, Month: 3, Day: 1}
	last := dispensary.Date{Year: 2026, Month: 3, Day: 31}
	for _, filter := range []dispensary.DateFilter{
		dispensary.DateOn(first), dispensary.DateBefore(first), dispensary.DateAfter(last), dispensary.DateRange(first, last),
	} {
		fmt.Println(filter)
	}
	// Output:
	// 2026-03-01
	// <2026-03-01
	// >2026-03-31
	// 2026-03-01..2026-03-31
}
