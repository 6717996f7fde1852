package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// A user connects: the callback's code becomes a token, stored under your own user ID, and a
// token source authorizes calls with it.
func Example() {
	client, ctx := oauthtest.ExampleClient(), context.Background() // in a program: oauth.New(oauth.Config{…})
	conns, err := tokens.NewConnections(tokens.Config{Client: client, Store: tokenstore.NewMemoryStore()})
	if err != nil {
		log.Fatal(err)
	}

	state := oauth.NewState() // kept in the user's session
	_, err = client.AuthorizeURL(state)
	if err != nil {
		log.Fatal(err)
	}

	callback := url.Values{"code": {"4f7e"}, "state": {state}} // r.URL.Query()
	code, err := oauth.ParseCallback(callback, state)
	if err != nil {
		log.Fatal(err)
	}
	record, err := conns.Connect(ctx, "dr-17", code) // exchanges and saves
	if err != nil {
		log.Fatal(err)
	}

	source := conns.TokenSource("dr-17")
	access, err := source.Token(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(record.Token.ResourceOwner.Type, record.Token.ResourceOwner.ID, record.Token.Scopes())
	fmt.Println(access.Secret, access.HasScope("clinic:read"))
	// Output:
	// Practitioner prac-1 [catalog:read clinic:read]
	// [redacted] true
}

// The URL contains the settings of the dashboard and the state.
func ExampleClient_AuthorizeURL() {
	client, err := oauth.New(oauth.Config{
		Site: api.Site{
			Environment: api.CanadaProduction,
			BaseURL:     "https://platform.example/api",
			AuthURL:     "https://login.platform.example",
		},
		ClientID: "my-app", ClientSecret: api.NewSecret("from-your-secret-store"),
		RedirectURL: "https://ehr.example/callback",
	})
	if err != nil {
		log.Fatal(err)
	}
	address, _ := client.AuthorizeURL("use-NewState-instead")
	fmt.Println(address)

	_, err = client.AuthorizeURL("")
	fmt.Println(errors.Is(err, api.ErrArgument))
	// Output:
	// https://login.platform.example/oauth/authorize?client_id=my-app&redirect_uri=https%3A%2F%2Fehr.example%2Fcallback&response_type=code&state=use-NewState-instead
	// true
}

// ParseCallback returns a different error for each way in which a callback can fail.
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
		case errors.Is(err, oauth.ErrCanceled):
			fmt.Println("show that nothing was connected")
		case errors.Is(err, oauth.ErrState):
			fmt.Println("reject, and offer to start again")
		default:
			fmt.Println(err)
		}
	}
	// Output:
	// exchange the code
	// show that nothing was connected
	// reject, and offer to start again
	// oauth: the callback contains no authorization code
}

var exampleEnvironment = api.USSandbox

// A token prints without its secrets, whatever the verb.
func ExampleToken() {
	token := oauth.Token{
		AccessToken: api.NewSecret("b2d8"), RefreshToken: api.NewSecret("91ac"), Environment: exampleEnvironment,
		ResourceOwner: oauth.ResourceOwner{ID: "0a1b", Type: oauth.ResourceOwnerPractitioner},
		ExpiresAt:     time.Date(2026, 3, 4, 14, 0, 0, 0, time.UTC),
	}
	fmt.Printf("%+v\n", token)
	// Output:
	// oauth.Token{us/sandbox Practitioner 0a1b expires 2026-03-04T14:00:00Z access [redacted] refresh [redacted]}
}

// If your program already uses x/oauth2, it can keep its tokens there.
func ExampleFromOAuth2() {
	existing := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "b2d8"})
	source := oauth.FromOAuth2(existing, exampleEnvironment)
	token, err := source.Token(context.Background())
	fmt.Println(token.Environment, token.Secret, err)
	// Output: us/sandbox [redacted] <nil>
}
