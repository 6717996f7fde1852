package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// examplePlatform stands for the platform: it issues one token and then says
// that it does not know its refresh token.
func examplePlatform() *httptest.Server {
	issued := false
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if issued {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_grant","error_description":"The refresh token is invalid."}`)
			return
		}
		issued = true
		fmt.Fprint(w, `{"oauth":{"access_token":"b2d8","token_type":"Bearer","expires_in":7200,"refresh_token":"91ac",
			"scope":"catalog:read clinic:read","created_at":"2026-03-04T12:00:00Z",
			"resource_owner":{"id":"0a1b","type":"Practitioner"}}}`)
	}))
}

func exampleClient(server *httptest.Server) *oauth.Client {
	client, err := oauth.New(oauth.Config{
		Site: api.Site{
			Environment: api.Environment{Region: api.US, Stage: api.Sandbox},
			BaseURL:     server.URL + "/api", // the addresses that the platform gave you
			AuthURL:     server.URL,
		},
		ClientID:     "my-app",
		ClientSecret: "from-your-secret-store",
		RedirectURL:  "https://ehr.example/dispensary/callback",
	})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// A user is connected: the callback's code becomes a token, the token is stored
// under the integrator's own id, and a source authorizes calls with it.
func Example() {
	server := examplePlatform()
	defer server.Close()
	client, store, ctx := exampleClient(server), oauth.NewMemoryStore(), context.Background()

	state := oauth.NewState() // kept in the user's session
	_, err := client.AuthorizeURL(state)
	if err != nil {
		log.Fatal(err)
	}

	callback := url.Values{"code": {"4f7e"}, "state": {state}} // r.URL.Query()
	code, err := oauth.ParseCallback(callback, state)
	if err != nil {
		log.Fatal(err)
	}
	token, err := client.Exchange(ctx, code)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := store.Save(ctx, client.Key("dr-17"), token); err != nil {
		log.Fatal(err)
	}

	source := client.TokenSource(store, "dr-17")
	access, err := source.Token(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(token.ResourceOwner.Type, token.ResourceOwner.ID, token.Scopes())
	fmt.Println(access.Secret, access.HasScope("clinic:read"))
	// Output:
	// Practitioner 0a1b [catalog:read clinic:read]
	// [redacted] true
}

// The address holds what the dashboard has, and the state.
func ExampleClient_AuthorizeURL() {
	client, err := oauth.New(oauth.Config{
		Site: api.Site{
			Environment: api.Environment{Region: api.Canada, Stage: api.Production},
			BaseURL:     "https://platform.example/api",
			AuthURL:     "https://login.platform.example",
		},
		ClientID: "my-app", ClientSecret: "from-your-secret-store",
		RedirectURL: "https://ehr.example/callback",
	})
	if err != nil {
		log.Fatal(err)
	}
	address, _ := client.AuthorizeURL("use-NewState-instead")
	fmt.Println(address)

	_, err = client.AuthorizeURL("")
	fmt.Println(errors.Is(err, api.ErrInvalidArgument))
	// Output:
	// https://login.platform.example/oauth/authorize?client_id=my-app&redirect_uri=https%3A%2F%2Fehr.example%2Fcallback&response_type=code&state=use-NewState-instead
	// true
}

// Every way that a callback can end is told apart.
func ExampleParseCallback() {
	const state = "kept-in-the-session"
	for _, callback := range []url.Values{
		{"code": {"4f7e"}, "state": {state}},
		{"error": {"access_denied"}, "state": {state}},
		{"code": {"4f7e"}, "state": {"of another browser"}},
		{"state": {state}},
	} {
		_, err := oauth.ParseCallback(callback, state)
		switch {
		case err == nil:
			fmt.Println("exchange the code")
		case errors.Is(err, oauth.ErrCancelled):
			fmt.Println("show that nothing was connected")
		case errors.Is(err, oauth.ErrState):
			fmt.Println("refuse, and offer to start again")
		default:
			fmt.Println(err)
		}
	}
	// Output:
	// exchange the code
	// show that nothing was connected
	// refuse, and offer to start again
	// dispensary: the callback carries no authorization code
}
