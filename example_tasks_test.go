package dispensary_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
)

// The most common tasks. TestTasksNeedFewNames counts the names in each example.

var url, accessToken = sandbox()

func Example() {
	client, err := dispensary.New(dispensary.USSandbox.At(url), dispensary.WithAccessToken(accessToken))
	if err != nil {
		log.Fatal(err)
	}
	practice, err := client.Clinic.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(practice.Name)
	// Output: Maple Hollow Integrative Clinic
}

func Example_listOrders() {
	client, ctx := connected()
	yesterday := time.Now().AddDate(0, 0, -1)

	for order, err := range client.Clinic.Orders.List(clinic.OrderListOptions{CompletedSince: yesterday}).All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(order) // prints its id only
	}
}

func Example_createPatientOnce() {
	client, ctx := connected()

	patient, created, err := client.Clinic.Patients.Ensure(ctx, clinic.PatientCreate{
		FirstName: "Ada",
		LastName:  "Example",
		Email:     "ada@example.com",
		Metadata:  clinic.Metadata{ID: "ehr-4711"}, // your own id: a second call finds it
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(patient, created)
}

func Example_findPatient() {
	client, ctx := connected()

	patient, err := client.Clinic.Patients.ByMetadataID(ctx, "ehr-4711")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(patient)
}

func Example_listEvents() {
	client, ctx := connected()
	yesterday := time.Now().AddDate(0, 0, -1)

	for event, err := range client.Events.List(events.ListOptions{Since: yesterday}).All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event)
	}
}

// sandbox returns the base URL of a fake platform that runs until the program ends, and an
// access token.
func sandbox() (url, accessToken string) {
	platform := fake()
	return platform.Site().BaseURL, platform.Tokens.Issue(model.User{}).AccessToken
}

func connected() (*dispensary.Client, context.Context) {
	return fake().Client(model.User{}), context.Background()
}

// fake starts a fake platform with its small data set.
func fake() *dispensarytest.Server {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	return platform
}
