package integration_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/webhook"
)

// Load reports all problems of a configuration at once, with the names of the variables.
func ExampleLoad() {
	_, err := integration.Load([]string{ // a program passes os.Environ()
		"DISPENSARY_US_SANDBOX_BASE_URL=https://platform.example/api",
		"DISPENSARY_US_SANDBOX_AUTH_URL=platform.example",
		"DISPENSARY_US_SANDBOX_CLIENT_ID=dashboard-shows-it",
		"DISPENSARY_US_SANDBOX_CLIENT_SECERT=dashboard-shows-it",
		"DISPENSARY_US_SANDBOX_REDIRECT_URL=https://ehr.example/dispensary/callback",
		"DISPENSARY_US_SANDBOX_WEBHOOK_SECRETS=dashboard-shows-it",
		"DISPENSARY_STORE=/var/lib/ehr/tokens.db",
		"DISPENSARY_INBOX=sqlite:/var/lib/ehr/inbox.db",
	})
	fmt.Println(err)
	// Output:
	// dispensary: DISPENSARY_US_SANDBOX_CLIENT_SECERT is not a variable of this library: did you mean DISPENSARY_US_SANDBOX_CLIENT_SECRET?
	// dispensary: DISPENSARY_US_SANDBOX_AUTH_URL is not an absolute URL
	// dispensary: DISPENSARY_US_SANDBOX_CLIENT_SECRET is empty
	// dispensary: DISPENSARY_US_SANDBOX_WEBHOOK_CHALLENGE is empty
	// dispensary: DISPENSARY_STORE must begin with one of postgres:, mysql:, sqlite:, memory:
	// dispensary: DISPENSARY_INBOX needs a driver in the program: import _ "github.com/dispensary-go/dispensary/integration/sqlite"
	// dispensary: DISPENSARY_SEAL_KEYS is empty, but tokens and events are stored encrypted
}

// This program is a complete integration. A practitioner connects in the browser, a patient
// orders, a handler receives the order, and Shutdown ends all parts in order.
func ExampleOpen() {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux) // your program has an http.Server
	platform, err := dispensarytest.Start(dispensarytest.WithRedirectURI(server.URL + "/dispensary/callback"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = platform.Close() }()
	registered := platform.Application()
	config := integration.Config{ // your program calls Load or LoadFile
		Store: dispensary.NewSecret("memory:"), Inbox: dispensary.NewSecret("memory:"),
		StateKeys: []dispensary.Secret{dispensary.NewSecret("openssl rand -base64 32 prints one")},
		Applications: []integration.Application{{
			Site: platform.Site(), ClientID: registered.ClientID, ClientSecret: dispensary.NewSecret(registered.ClientSecret),
			RedirectURL:      registered.RedirectURI,
			ClinicKey:        dispensary.NewSecret(platform.ClinicKey()), // the first call with it activates the integration
			WebhookSecrets:   []dispensary.Secret{dispensary.NewSecret(registered.WebhookSecret)},
			WebhookChallenge: dispensary.NewSecret(registered.ChallengeToken),
		}},
	}
	handled := make(chan struct{})
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		fmt.Println("a patient has ordered", len(order.Object.LineItems), "products")
		close(handled)
		return nil
	})
	ctx := context.Background()
	app, err := integration.Open(ctx, config, integration.Setup{
		Work:    webhook.Work{Handle: router.Dispatch, Order: webhook.ByPatient},
		Connect: connect.Config{User: func(*http.Request) (string, error) { return "dr-17", nil }}, // from your session
	})
	if err != nil {
		log.Fatal(err)
	}
	app.Mount(mux)
	anyone, err := app.Accounts.AnyUser(dispensary.USSandbox, accounts.ClinicOptions{})
	if err != nil {
		log.Fatal(err)
	}
	products, err := catalogsync.New(catalogsync.Config{Catalog: anyone.Catalog}) // work of your own: a copy of the catalog
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx, products.Run) }()

	page, err := platform.Browser(platform.Users()[0]).Authorize(ctx, server.URL+"/dispensary/connect?return_to=/healthz")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("connected:", page.StatusCode)
	_ = page.Body.Close()
	client, err := app.Accounts.Client(ctx, "dr-17")
	if err != nil {
		log.Fatal(err)
	}
	practice, err := client.Clinic.Get(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("connected with", practice.Name)
	if err := platform.Webhooks.Register(server.URL+"/webhooks/us-sandbox", model.EventOrderPlaced); err != nil {
		log.Fatal(err)
	}
	if _, _, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{}); err != nil {
		log.Fatal(err)
	}
	<-handled
	fmt.Println("ended:", app.Shutdown(ctx, server.Config), <-ended)
	// Output:
	// connected: 200
	// connected with Maple Hollow Integrative Clinic
	// a patient has ordered 1 products
	// ended: <nil> <nil>
}

// This file contains the settings. The client secret has its own file.
func ExampleLoadFile() {
	file, err := os.CreateTemp("", "dispensary*.json")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(`{
		"environments": {"us/sandbox": {
			"base_url": "https://platform.example/api", "auth_url": "https://platform.example",
			"client_id": "dashboard-shows-it", "client_secret_fiel": "/run/secrets/client_secret",
			"redirect_url": "https://ehr.example/dispensary/callback"
		}},
		"store": "memory:"
	}`)
	if err != nil {
		log.Fatal(err)
	}
	_, err = integration.LoadFile(file.Name())
	fmt.Println(err)
	// Output:
	// dispensary: environments.us/sandbox.client_secret_fiel does not exist: did you mean client_secret_file?
	// dispensary: environments.us/sandbox.client_secret is empty
}
