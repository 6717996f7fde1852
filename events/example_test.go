package events_test

import (
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/events"
)

// An event is recognised first, which any envelope and any type allows, and its
// data is decoded when it is needed.
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
	// events: body holds no event with an id and a type
}

// The data of an order comes wrapped or bare; both decode to the same.
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
		fmt.Println(order.ID, order.Data.ID, order.Data.OrderNumber)
	}
	// Output:
	// evt_1 or_1 R100
	// evt_2 or_2 R101
	// events: event is about another kind of object: patient.created "evt_3"
}
