package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"golang.org/x/oauth2"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

var exampleEnvironment = api.Environment{Region: api.US, Stage: api.Sandbox}

// A user whose authorization has ended is told apart from every failure, and
// the error knows where to send them.
func ExampleReauthorizeError() {
	server := examplePlatform()
	defer server.Close()
	client, store, ctx := exampleClient(server), oauth.NewMemoryStore(), context.Background()
	token, err := client.Exchange(ctx, "4f7e")
	if err != nil {
		log.Fatal(err)
	}
	token.ExpiresAt = time.Now().Add(-time.Minute) // two hours later
	if _, err := store.Save(ctx, client.Key("dr-17"), token); err != nil {
		log.Fatal(err)
	}

	_, err = client.TokenSource(store, "dr-17").Token(ctx)
	if e, ok := errors.AsType[*oauth.ReauthorizeError](err); ok {
		_, linkErr := e.AuthorizeURL(oauth.NewState())
		fmt.Println(e.Key.User, e.Reason, e.Owner.ID, linkErr)
	}
	record, _ := store.Load(ctx, client.Key("dr-17"))
	fmt.Println(record.State, record.Reason)
	// Output:
	// dr-17 invalid_grant 0a1b <nil>
	// reauthorize invalid_grant
}

// Someone who never connected needs the same link.
func ExampleClient_TokenSource() {
	server := examplePlatform()
	defer server.Close()
	source := exampleClient(server).TokenSource(oauth.NewMemoryStore(), "dr-18")
	_, err := source.Token(context.Background())
	fmt.Println(errors.Is(err, oauth.ErrReauthorize), errors.Is(err, oauth.ErrNoRecord))
	fmt.Println(err)
	// Output:
	// true true
	// dispensary: us/sandbox/dr-18 must authorize again: not_connected
}

// Before a program ends it waits for refreshes under way, so that no new token
// pair is lost.
func ExampleClient_Shutdown() {
	server := examplePlatform()
	defer server.Close()
	client := exampleClient(server)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println(client.Shutdown(ctx), client.Unwritten())
	// Output: <nil> 0
}

// A token prints without its secrets, however it is printed.
func ExampleToken() {
	token := oauth.Token{
		AccessToken: "b2d8", RefreshToken: "91ac", Environment: exampleEnvironment,
		ResourceOwner: oauth.ResourceOwner{ID: "0a1b", Type: oauth.OwnerPractitioner},
		ExpiresAt:     time.Date(2026, 3, 4, 14, 0, 0, 0, time.UTC),
	}
	fmt.Printf("%+v\n", token)
	// Output:
	// oauth.Token{us/sandbox Practitioner 0a1b expires 2026-03-04T14:00:00Z access [redacted] refresh [redacted]}
}

// A tool with one token at hand needs no store.
func ExampleStatic() {
	source := oauth.Static(oauth.Token{AccessToken: "b2d8", Environment: exampleEnvironment})
	token, err := source.Token(context.Background())
	fmt.Println(token.Environment, err)
	// Output: us/sandbox <nil>
}

// A program that keeps its tokens with x/oauth2 can go on doing so.
func ExampleFromOAuth2() {
	existing := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "b2d8"})
	source := oauth.FromOAuth2(existing, exampleEnvironment)
	token, err := source.Token(context.Background())
	fmt.Println(token.Environment, token.Secret, err)
	// Output: us/sandbox [redacted] <nil>
}

// The lease protocol of a store: whoever takes the lease on the version that it
// saw may replace it, everybody else looks again.
func ExampleStore() {
	var store oauth.Store = oauth.NewMemoryStore()
	ctx, key := context.Background(), oauth.Key{Environment: exampleEnvironment, User: "dr-17"}
	token := oauth.Token{AccessToken: "old", RefreshToken: "r", Environment: exampleEnvironment}
	record, err := store.Save(ctx, key, token)
	if err != nil {
		log.Fatal(err)
	}

	mine := oauth.Lease{Key: key, Version: record.Version, Owner: "replica-1"}
	_, err = store.Lease(ctx, mine, 30*time.Second)
	fmt.Println(err)
	_, err = store.Lease(ctx, oauth.Lease{Key: key, Version: record.Version, Owner: "replica-2"}, 30*time.Second)
	fmt.Println(err)

	token.AccessToken = "new"
	_, err = store.Commit(ctx, mine, token)
	fmt.Println(err)
	_, err = store.Commit(ctx, mine, token)
	fmt.Println(err)
	// Output:
	// <nil>
	// dispensary: the stored token is being refreshed by someone else
	// <nil>
	// dispensary: the stored token was changed by someone else
}
