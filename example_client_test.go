package dispensary_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// fake starts a platform with its small world.
func fake() *dispensarytest.Server {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	return platform
}

// A first call: the platform's addresses and a token are in the environment.
func ExampleNewFromEnv() {
	client, err := dispensary.NewFromEnv()
	if err != nil {
		log.Fatal(err)
	}
	practice, err := client.Clinic.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(practice.Name)
}

// A client is made once, for a site, and shared. Here the site is a fake of the
// platform in the same process; see [dispensary.Directory] for real ones.
func ExampleNew() {
	platform := fake()
	defer platform.Close()

	client, err := dispensary.New(platform.Site(),
		dispensary.WithTokenSource(platform.TokenSource(model.User{})), // see package oauth
		dispensary.WithUserAgent("ExampleEHR/4.2"),
		dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 3}),
		dispensary.WithLogger(slog.New(slog.DiscardHandler)),
	)
	if err != nil {
		log.Fatal(err)
	}
	practice, err := client.Clinic.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Site().Environment, practice.Name)
	// Output: us/sandbox Maple Hollow Integrative Clinic
}

// One client serves all users: each has a view with their token.
func ExampleClient_WithTokenSource() {
	platform := fake()
	defer platform.Close()
	client, err := dispensary.New(platform.Site())
	if err != nil {
		log.Fatal(err)
	}

	product := platform.Products.All()[2].ID
	for _, user := range platform.Users()[:2] {
		view := client.WithTokenSource(platform.TokenSource(user))
		got, err := view.Catalog.Products.Get(context.Background(), product, catalog.ProductGetOptions{})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s prefers a dosage of their own: %t\n", user.Name, got.CustomDosage != nil)
	}
	// Output:
	// Amara Osei prefers a dosage of their own: true
	// Daniel Whitcombe prefers a dosage of their own: false
}

// An application that serves several clinics, or a clinic with several integrations,
// gives each view the key that belongs to it.
func ExampleClient_WithClinicKey() {
	platform, err := dispensarytest.Start(dispensarytest.WithIntegrations(2))
	if err != nil {
		log.Fatal(err)
	}
	defer platform.Close()
	client := platform.Client(model.User{})

	seen := map[string]bool{}
	for _, key := range platform.ClinicKeys() {
		practice, err := client.WithClinicKey(dispensary.NewSecret(key)).Clinic.Get(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		seen[practice.IntegrationID] = true
	}
	fmt.Println(len(seen), "integrations")
	// Output: 2 integrations
}

// Do reaches what no method covers, through the same pipeline.
func ExampleClient_Do() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	body, err := client.Do(context.Background(), dispensary.RawRequest{
		Method: http.MethodGet, Path: "/clinic/categories", Query: map[string][]string{"page[size]": {"1"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.15s…\n", body)
	// Output: {"categories":[…
}

// The request id is what the platform asks for when a problem is reported.
func ExampleCaptureResponse() {
	platform := fake()
	defer platform.Close()
	client := platform.Client(model.User{})

	var response dispensary.Response
	_, err := client.Clinic.Patients.Get(context.Background(), "unknown", dispensary.CaptureResponse(&response))
	fmt.Println(response.StatusCode, len(response.RequestID) > 0, response.Attempts, err != nil)
	// Output: 404 true 1 true
}

// One limiter keeps all clients of a program below the platform's rate limit. A
// call that would wait beyond its deadline fails at once, unsent.
func ExampleNewRateLimiter() {
	platform := fake()
	defer platform.Close()
	limiter, err := dispensary.NewRateLimiter(2, 5*time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	client := platform.Client(model.User{}, dispensary.WithLimiter(limiter))

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 3 {
		_, err := client.Clinic.Get(ctx)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// dispensary: clinic.get GET /clinic: the rate limit allows no request before the deadline: request was not sent
}
