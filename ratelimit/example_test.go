package ratelimit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// All processes share a limit. In production, use a store of package pgstore.
func ExampleNewFleet() {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer platform.Close()
	store := ratelimit.NewMemoryStore()

	fleet, err := ratelimit.NewFleet(ratelimit.FleetConfig{
		Store: store, Name: "us", Requests: 5000, Per: 5 * time.Minute, Processes: 8,
	})
	if err != nil {
		log.Fatal(err)
	}
	client := platform.Client(model.User{}, dispensary.WithLimiter(fleet))

	ctx := context.Background()
	practice, err := client.Clinic.Get(ctx) // interactive: a person waits
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(practice.ID != "")

	nightly := api.ContextWithPriority(ctx, api.PriorityReconcile)
	_, err = client.Clinic.Get(nightly) // leaves room for interactive calls
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}
