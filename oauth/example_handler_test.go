package oauth_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// The whole browser flow, mounted below a prefix. The browser leaves for the
// platform with a state, and comes back with a code.
func ExampleHandler() {
	server := examplePlatform()
	defer server.Close()
	client, store := exampleClient(server), oauth.NewMemoryStore()
	handler, err := oauth.NewHandler(oauth.HandlerConfig{
		Client:     client,
		Store:      store,
		StateKeys:  []api.Secret{"32-random-bytes-of-a-secret-store"},
		User:       func(*http.Request) (string, error) { return "dr-17", nil }, // from your session
		OwnerTypes: []string{oauth.OwnerPractitioner},
		Done: func(w http.ResponseWriter, r *http.Request, result *oauth.Result) {
			fmt.Println(result.Outcome, result.Key.User, result.ReturnTo)
			result.Serve(w, r) // the page, or the redirect, that there is without a hook
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/dispensary/", handler)

	leaving := httptest.NewRecorder()
	mux.ServeHTTP(leaving, httptest.NewRequest(http.MethodGet, "/dispensary/connect?return_to=/patients/7", nil))
	platform, _ := leaving.Result().Location()

	back := httptest.NewRequest(http.MethodGet, "/dispensary/callback?code=4f7e&state="+platform.Query().Get("state"), nil)
	back.AddCookie(leaving.Result().Cookies()[0])
	arriving := httptest.NewRecorder()
	mux.ServeHTTP(arriving, back)
	fmt.Println(arriving.Code, arriving.Header().Get("Location"))
	// Output:
	// connected dr-17 /patients/7
	// 303 /patients/7
}

// Events reach the user interface and the alarms of the integrator.
func ExampleEvent() {
	server := examplePlatform()
	defer server.Close()
	config := oauth.Config{
		Site:     api.Site{Environment: exampleEnvironment, BaseURL: server.URL + "/api", AuthURL: server.URL},
		ClientID: "my-app", ClientSecret: "from-your-secret-store", RedirectURL: "https://ehr.example/dispensary/callback",
		OnEvent: func(_ context.Context, event oauth.Event) {
			switch e := event.(type) {
			case oauth.Connected:
				fmt.Println(e.Key.User, "is connected as", e.Owner.Type, e.Owner.ID)
			case oauth.MustReauthorize:
				fmt.Println(e.Key.User, "must connect again:", e.Reason)
			case oauth.BreakerTripped, oauth.ConfigFault, oauth.Unwritten:
				fmt.Println("wake somebody:", e)
			}
		},
	}
	client, err := oauth.New(config)
	if err != nil {
		log.Fatal(err)
	}
	store, ctx := oauth.NewMemoryStore(), context.Background()
	record, err := client.Connect(ctx, store, "dr-17", "4f7e", nil)
	if err != nil {
		log.Fatal(err)
	}
	token := record.Token
	token.ExpiresAt = time.Now().Add(-time.Minute) // two hours later
	if _, err := store.Save(ctx, record.Key, token); err != nil {
		log.Fatal(err)
	}
	_, _ = client.TokenSource(store, "dr-17").Token(ctx) // the platform has forgotten the refresh token
	// Output:
	// dr-17 is connected as Practitioner 0a1b
	// dr-17 must connect again: invalid_grant
}

// A refresher runs beside the server, on every replica.
func ExampleRefresher() {
	server := examplePlatform()
	defer server.Close()
	client, store := exampleClient(server), oauth.NewMemoryStore()
	refresher, err := oauth.NewRefresher(client, store, oauth.RefreshPolicy{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- refresher.Run(ctx) }()
	// … serve, until the program is to end
	stop()
	fmt.Println(<-ended, client.Shutdown(context.Background()))
	// Output: <nil> <nil>
}

// Disconnecting twice is no error.
func ExampleClient_Disconnect() {
	server := examplePlatform()
	defer server.Close()
	client, store := exampleClient(server), oauth.NewMemoryStore()
	fmt.Println(client.Disconnect(context.Background(), store, "dr-17"))
	// Output: <nil>
}

// A store that can list tells who has to be asked again, without any secret.
func ExampleLister() {
	store, ctx := oauth.NewMemoryStore(), context.Background()
	for _, user := range []string{"dr-18", "dr-17"} {
		token := oauth.Token{AccessToken: "b2d8", RefreshToken: "91ac", Environment: exampleEnvironment}
		if _, err := store.Save(ctx, oauth.Key{Environment: exampleEnvironment, User: user}, token); err != nil {
			log.Fatal(err)
		}
	}
	records, err := store.List(ctx, oauth.Listing{Environment: exampleEnvironment, Limit: 100})
	for _, record := range records {
		fmt.Println(record.Key.User, record.State, record.Token.AccessToken == "")
	}
	fmt.Println(err)
	// Output:
	// dr-17 active true
	// dr-18 active true
	// <nil>
}
