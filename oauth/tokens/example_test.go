package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

func exampleConnections(store tokenstore.Store) *tokens.Connections {
	conns, err := tokens.NewConnections(tokens.Config{Client: oauthtest.ExampleClient(), Store: store})
	if err != nil {
		log.Fatal(err)
	}
	return conns
}

// A user who must authorize again gets an error of a distinct type. It builds the URL to which
// you redirect the user.
func ExampleReauthorizeError() {
	store, ctx := tokenstore.NewMemoryStore(), context.Background()
	conns := exampleConnections(store)
	token, err := conns.Client().Exchange(ctx, api.NewSecret("4f7e"))
	if err != nil {
		log.Fatal(err)
	}
	token.ConfiguredScope = "clinic:read" // the application had fewer scopes then
	if _, err := store.Save(ctx, conns.Key("dr-17"), token); err != nil {
		log.Fatal(err)
	}

	_, err = conns.TokenSource("dr-17").Token(ctx)
	if e, ok := errors.AsType[*tokens.ReauthorizeError](err); ok {
		_, linkErr := e.AuthorizeURL(oauth.NewState())
		fmt.Println(e.Key.User, e.Reason, e.Owner.ID, linkErr)
	}
	record, _ := store.Load(ctx, conns.Key("dr-17"))
	fmt.Println(record.State, record.Reason)
	// Output:
	// dr-17 scopes_extended prac-1 <nil>
	// reauthorize scopes_extended
}

// A user who never connected needs the same URL.
func ExampleConnections_TokenSource() {
	source := exampleConnections(tokenstore.NewMemoryStore()).TokenSource("dr-18")
	_, err := source.Token(context.Background())
	fmt.Println(errors.Is(err, api.ErrReauthorize), errors.Is(err, tokenstore.ErrNoRecord))
	fmt.Println(err)
	// Output:
	// true true
	// tokens: us/sandbox/dr-18 must authorize again: not_connected
}

// Observers serve the user interface and the alarms of your program.
func ExampleObserver() {
	store, ctx := tokenstore.NewMemoryStore(), context.Background()
	conns, err := tokens.NewConnections(tokens.Config{
		Client: oauthtest.ExampleClient(), // in a program: oauth.New(oauth.Config{…})
		Store:  store,
		Observers: []tokens.Observer{{
			Connected: func(_ context.Context, e tokens.Authorization) {
				fmt.Println(e.Key.User, "is connected as", e.Owner.Type, e.Owner.ID)
			},
			MustReauthorize: func(_ context.Context, e *tokens.ReauthorizeError) {
				fmt.Println(e.Key.User, "must connect again:", e.Reason)
			},
			MassRejection: func(_ context.Context, e tokens.MassRejection) { fmt.Println("wake the operator:", e.Users) },
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	record, err := conns.Connect(ctx, "dr-17", api.NewSecret("4f7e"))
	if err != nil {
		log.Fatal(err)
	}
	token := record.Token
	token.ConfiguredScope = "clinic:read" // the application had fewer scopes then
	if _, err := store.Save(ctx, record.Key, token); err != nil {
		log.Fatal(err)
	}
	_, _ = conns.TokenSource("dr-17").Token(ctx)
	// Output:
	// dr-17 is connected as Practitioner prac-1
	// dr-17 must connect again: scopes_extended
}

// KeepFresh runs beside the server on every replica. On shutdown, wait for it and for running
// refreshes, so that no new token pair is lost.
func ExampleConnections_KeepFresh() {
	conns := exampleConnections(tokenstore.NewMemoryStore())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- conns.KeepFresh(ctx, tokens.KeepFreshPolicy{}) }()
	// … serve until shutdown
	stop()
	fmt.Println(<-ended, conns.Close(context.Background()))
	// Output: <nil> <nil>
}

// You can repeat Disconnect.
func ExampleConnections_Disconnect() {
	conns := exampleConnections(tokenstore.NewMemoryStore())
	fmt.Println(conns.Disconnect(context.Background(), "dr-17"))
	// Output: <nil>
}
