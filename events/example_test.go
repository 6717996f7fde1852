package events_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
)

// Parse identifies an event in any envelope and of any type. Decode its data later.
func ExampleParse() {
	event, err := events.Parse([]byte(`{"event_payload":{"event":{"id":"evt_1","type":"invoice.paid","data":{"amount":"12.50"}}}}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(event)
	fmt.Println(string(event.Data))

	_, err = events.Parse([]byte(`{"hello":"world"}`))
	fmt.Println(err)
	// Output:
	// invoice.paid "evt_1"
	// {"amount":"12.50"}
	// events: body contains no event with an id and a type
}

// The data of an order may be wrapped or bare. Both forms decode to the same order.
func ExampleAs() {
	for _, body := range []string{
		`{"event":{"id":"evt_1","type":"order.placed","data":{"order":{"id":"or_1","order_number":"R100"}}}}`,
		`{"event":{"id":"evt_2","type":"order.placed","data":{"id":"or_2","order_number":"R101"}}}`,
		`{"event":{"id":"evt_3","type":"patient.created","data":{"patient":{"id":"pa_1"}}}}`,
	} {
		event, err := events.Parse([]byte(body))
		if err != nil {
			log.Fatal(err)
		}
		order, err := events.As[clinic.Order](event)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(order.ID, order.Object.ID, order.Object.OrderNumber)
	}
	// Output:
	// evt_1 or_1 R100
	// evt_2 or_2 R101
	// events: event is about another kind of object: patient.created "evt_3"
}

// connect starts a fake platform with its small data set, and returns a client with the token
// of its first practitioner. Your program gets its client from dispensary.New.
func connect() (*dispensarytest.Server, *dispensary.Client) {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	return platform, platform.Client(model.User{})
}

// List the events that a webhook missed. Lists leave the data out, and Get returns it.
func ExampleService_List() {
	platform, client := connect()
	defer platform.Close()
	ctx, p := context.Background(), platform
	if _, _, err := p.Orders.Place(p.Patients.All()[0].ID, model.OrderCreate{}); err != nil {
		log.Fatal(err)
	}

	yesterday := time.Now().Add(-24 * time.Hour)
	options := events.ListOptions{Since: yesterday, Types: []events.Type{events.TypeOrderPlaced}}
	for listed, err := range client.Events.List(options).All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		event, err := client.Events.Get(ctx, listed.ID)
		if err != nil {
			log.Fatal(err)
		}
		order, err := events.As[clinic.Order](*event)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(order.Type, order.Object.PaymentTotal, len(order.Object.LineItems), "line item")
	}
	// Output: order.placed 30.64 1 line item
}

// Get returns an event with its data. An unknown event, or one older than 30 days, is not
// found.
func ExampleService_Get() {
	platform, client := connect()
	defer platform.Close()

	_, patient, err := platform.Patients.Create(model.PatientCreate{FirstName: "Ada", LastName: "Example"})
	if err != nil {
		log.Fatal(err)
	}
	event, err := client.Events.Get(context.Background(), patient.ID)
	if err != nil {
		log.Fatal(err)
	}
	created, err := events.As[clinic.Patient](*event)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(created.Type, created.Object.FirstName)
	// Output: patient.created Ada
}

// The delivery log shows the attempts of a webhook. Here the endpoint responds with 404 and
// without the challenge token.
func ExampleDeliveries_List() {
	clock := dispensarytest.FrozenClock(time.Now())
	platform, err := dispensarytest.Start(dispensarytest.WithClock(clock))
	if err != nil {
		log.Fatal(err)
	}
	defer platform.Close()
	if _, err := platform.Clinics.ActivateKey(platform.ClinicKey()); err != nil {
		log.Fatal(err)
	}
	if err := platform.Webhooks.RegisterHandler(http.NotFoundHandler()); err != nil {
		log.Fatal(err)
	}
	client, p := platform.Client(model.User{}), platform
	if _, _, err := p.Orders.Place(p.Patients.All()[0].ID, model.OrderCreate{}); err != nil {
		log.Fatal(err)
	}
	clock.Advance(0) // run due deliveries

	page, err := client.Events.Deliveries.List(events.DeliveryListOptions{Outcome: events.DeliveryOutcomeUndelivered}).Page(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, delivery := range page.Items {
		event, err := delivery.Event()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Type, "attempt", delivery.AttemptNumber, "got status", delivery.ResponseStatus)
		fmt.Println("next attempt in", delivery.NextAttemptAt.Sub(delivery.AttemptedAt.Time))
	}
	// Output:
	// order.placed attempt 1 got status 404
	// next attempt in 1m0s
}
