package cookbook_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// The response to a write was lost. Search before you repeat the write.
func Example_lostResponse() {
	platform := start()
	defer platform.Close()
	platform.Fault(model.Fault{Operation: "patients.create", Effect: model.EffectDropAfterCommit, Times: 1})
	ctx, client := context.Background(), platform.Client(platform.Users()[0])
	ada := clinic.PatientCreate{FirstName: "Ada", LastName: "Example", Email: "ada@example.com", Metadata: clinic.Metadata{ID: "ehr-4711"}}

	_, err := client.Clinic.Patients.Create(ctx, ada)
	fmt.Println("may have been applied:", errors.Is(err, dispensary.ErrMaybeApplied))

	patient, created, err := client.Clinic.Patients.Ensure(ctx, ada) // finds her by your own ID
	must(err)
	fmt.Println(patient.FirstName, "created now:", created)
	// Output:
	// may have been applied: true
	// Ada created now: false
}

// An import can be repeated until no row fails.
func Example_importRecords() {
	platform := start()
	defer platform.Close()
	client := platform.Client(platform.Users()[0])
	rows := []clinic.PatientCreate{
		{FirstName: "Ada", LastName: "Example", Email: "ada@example.com", Metadata: clinic.Metadata{ID: "ehr-1"}},
		{FirstName: "Bea", LastName: "Example", Email: "ada@example.com", Metadata: clinic.Metadata{ID: "ehr-2"}}, // a typing error
		{FirstName: "Cleo", LastName: "Example", Email: "cleo@example.com", Metadata: clinic.Metadata{ID: "ehr-3"}},
	}

	ctx := api.ContextWithPriority(context.Background(), api.PriorityReconcile) // behind users and webhooks
	for _, row := range rows {
		_, created, err := client.Clinic.Patients.Ensure(ctx, row)
		if err != nil { // show it in the row, and import the file again when it is mended
			fmt.Println(row.Metadata.ID, dispensary.ProblemOf(err).Fields)
			continue
		}
		fmt.Println(row.Metadata.ID, "created:", created)
	}
	fmt.Println(len(platform.Journal.Requests()), "requests")
	// Output:
	// ehr-1 created: true
	// ehr-2 map[email:[Email has already been taken]]
	// ehr-3 created: true
	// 9 requests
}

// The client fails fast while the platform responds with 429.
func Example_rateLimited() {
	platform := start()
	defer platform.Close()
	client := platform.Client(platform.Users()[0])
	platform.Fault(model.Fault{Effect: model.EffectTooManyRequests, RetryAfter: time.Hour, Times: 1})

	for range 2 {
		_, err := client.Clinic.Get(context.Background())
		var failure *dispensary.Error
		if errors.Is(err, dispensary.ErrRateLimited) && errors.As(err, &failure) {
			fmt.Println("again in", failure.RetryAfter.Round(time.Hour))
		}
	}
	fmt.Println(len(platform.Journal.Requests()), "request") // the second call was not sent
	// Output:
	// again in 1h0m0s
	// again in 1h0m0s
	// 1 request
}

// The access token expired while the program slept. The first call refreshes it.
func Example_expiredToken() {
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	platform := start(dispensarytest.WithClock(clock))
	defer platform.Close()
	ctx, users := context.Background(), newAccounts(platform)
	approve(ctx, users, platform, "dr-17")
	client, err := users.Client(ctx, "dr-17")
	must(err)

	connected := len(platform.Journal.Requests())
	clock.Advance(3 * time.Hour)
	practice, err := client.Clinic.Get(ctx)
	must(err)
	fmt.Println(practice.Name)
	for _, request := range platform.Journal.Requests()[connected:] {
		fmt.Println(request.Operation, request.Status)
	}
	// Output:
	// Maple Hollow Integrative Clinic
	// clinic.get 401
	// oauth.token 200
	// clinic.get 200
}

// This order loses nothing: stop new requests, then new events, and then wait for unstored tokens.
func Example_shutdown() {
	platform := start()
	defer platform.Close()
	users := newAccounts(platform)
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: func(context.Context, events.Event) error { return nil }}})
	must(err)
	server := httptest.NewServer(http.NotFoundHandler())
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- users.KeepFresh(ctx, tokens.KeepFreshPolicy{}) }()

	stop() // the signal stops background work
	ending, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	fmt.Println("refresher:", <-done)
	fmt.Println("server:", server.Config.Shutdown(ending))
	fmt.Println("inbox:", inbox.Close(ending))
	fmt.Println("accounts:", users.Close(ending), "- not stored:", users.PendingCommits())
	// Output:
	// refresher: <nil>
	// server: <nil>
	// inbox: <nil>
	// accounts: <nil> - not stored: 0
}
