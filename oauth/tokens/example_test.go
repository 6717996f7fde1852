package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

var exampleEnvironment = api.Environment{Region: api.US, Stage: api.Sandbox}

func exampleConnections(store tokens.Store) *tokens.Connections {
	conns, err := tokens.NewConnections(tokens.Config{Client: oauthtest.ExampleClient(), Store: store})
	if err != nil {
		log.Fatal(err)
	}
	return conns
}

// A user whose authorization has ended gets an error of a type that no other failure
// has. It holds the address to send the user to.
func ExampleReauthorizeError() {
	store, ctx := tokens.NewMemoryStore(), context.Background()
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

// Someone who never connected needs the same link.
func ExampleConnections_TokenSource() {
	source := exampleConnections(tokens.NewMemoryStore()).TokenSource("dr-18")
	_, err := source.Token(context.Background())
	fmt.Println(errors.Is(err, oauth.ErrReauthorize), errors.Is(err, tokens.ErrNoRecord))
	fmt.Println(err)
	// Output:
	// true true
	// tokens: us/sandbox/dr-18 must authorize again: not_connected
}

// The lease protocol of a store: the caller that takes the lease on the version that it
// saw may replace it; all others load the record again.
func ExampleStore() {
	var store tokens.Store = tokens.NewMemoryStore()
	ctx, key := context.Background(), tokens.Key{Environment: exampleEnvironment, User: "dr-17"}
	token := oauth.Token{AccessToken: api.NewSecret("old"), RefreshToken: api.NewSecret("r"), Environment: exampleEnvironment}
	record, err := store.Save(ctx, key, token)
	if err != nil {
		log.Fatal(err)
	}

	mine := tokens.Lease{Key: key, Version: record.Version, Owner: "replica-1"}
	_, err = store.Lease(ctx, mine, 30*time.Second)
	fmt.Println(err)
	_, err = store.Lease(ctx, tokens.Lease{Key: key, Version: record.Version, Owner: "replica-2"}, 30*time.Second)
	fmt.Println(err)

	token.AccessToken = api.NewSecret("new")
	_, err = store.Commit(ctx, mine, token)
	fmt.Println(err)
	_, err = store.Commit(ctx, mine, token)
	fmt.Println(err)
	// Output:
	// <nil>
	// tokens: the stored token is being refreshed by another owner
	// <nil>
	// tokens: the stored token was changed by another writer
}

// Observers serve the user interface and the alarms of the integrator.
func ExampleObserver() {
	store, ctx := tokens.NewMemoryStore(), context.Background()
	conns, err := tokens.NewConnections(tokens.Config{
		Client: oauthtest.ExampleClient(), // in a program: oauth.New(oauth.Config{…})
		Store:  store,
		Observers: []tokens.Observer{{
			Connected: func(_ context.Context, e tokens.Connected) {
				fmt.Println(e.Key.User, "is connected as", e.Owner.Type, e.Owner.ID)
			},
			MustReauthorize: func(_ context.Context, e tokens.MustReauthorize) {
				fmt.Println(e.Key.User, "must connect again:", e.Reason)
			},
			BreakerTripped: func(_ context.Context, e tokens.BreakerTripped) { fmt.Println("wake the operator:", e.Users) },
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

// KeepFresh runs beside the server, on every replica. Before a program ends it waits for
// refreshes under way, so that no new token pair is lost.
func ExampleConnections_KeepFresh() {
	conns := exampleConnections(tokens.NewMemoryStore())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- conns.KeepFresh(ctx, tokens.KeepFreshPolicy{}) }()
	// … serve, until the program is to end
	stop()
	fmt.Println(<-ended, conns.Close(context.Background()))
	// Output: <nil> <nil>
}

// Disconnecting twice is no error.
func ExampleConnections_Disconnect() {
	conns := exampleConnections(tokens.NewMemoryStore())
	fmt.Println(conns.Disconnect(context.Background(), "dr-17"))
	// Output: <nil>
}

// A list shows which users have to authorize again, without any secret.
func ExampleStore_list() {
	store, ctx := tokens.NewMemoryStore(), context.Background()
	for _, user := range []string{"dr-18", "dr-17"} {
		token := oauth.Token{AccessToken: api.NewSecret("b2d8"), RefreshToken: api.NewSecret("91ac"), Environment: exampleEnvironment}
		if _, err := store.Save(ctx, tokens.Key{Environment: exampleEnvironment, User: user}, token); err != nil {
			log.Fatal(err)
		}
	}
	records, err := store.List(ctx, tokens.Listing{Environment: exampleEnvironment, Limit: 100})
	for _, record := range records {
		fmt.Println(record.Key.User, record.State, record.Token.AccessToken.IsZero())
	}
	fmt.Println(err)
	// Output:
	// dr-17 active true
	// dr-18 active true
	// <nil>
}
