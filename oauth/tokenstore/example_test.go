package tokenstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

var exampleEnvironment = api.USSandbox

// The lease protocol of a store: only the owner of the lease on a version can replace that
// version. Every other caller loads the record again.
func ExampleStore() {
	var store tokenstore.Store = tokenstore.NewMemoryStore()
	ctx, key := context.Background(), tokenstore.Key{Environment: exampleEnvironment, User: "dr-17"}
	token := oauth.Token{AccessToken: api.NewSecret("old"), RefreshToken: api.NewSecret("r"), Environment: exampleEnvironment}
	record, err := store.Save(ctx, key, token)
	if err != nil {
		log.Fatal(err)
	}

	mine := tokenstore.Lease{Key: key, Version: record.Version, Owner: "replica-1"}
	_, err = store.Lease(ctx, mine, 30*time.Second)
	fmt.Println(err)
	_, err = store.Lease(ctx, tokenstore.Lease{Key: key, Version: record.Version, Owner: "replica-2"}, 30*time.Second)
	fmt.Println(err)

	token.AccessToken = api.NewSecret("new")
	_, err = store.Commit(ctx, mine, token)
	fmt.Println(err)
	_, err = store.Commit(ctx, mine, token)
	fmt.Println(err)
	// Output:
	// <nil>
	// tokenstore: the stored token is being refreshed by another owner
	// <nil>
	// tokenstore: the stored token was changed by another writer
}

// List finds the users who have to authorize again. It returns no secrets.
func ExampleStore_list() {
	store, ctx := tokenstore.NewMemoryStore(), context.Background()
	for _, user := range []string{"dr-18", "dr-17"} {
		token := oauth.Token{AccessToken: api.NewSecret("b2d8"), RefreshToken: api.NewSecret("91ac"), Environment: exampleEnvironment}
		if _, err := store.Save(ctx, tokenstore.Key{Environment: exampleEnvironment, User: user}, token); err != nil {
			log.Fatal(err)
		}
	}
	records, err := store.List(ctx, tokenstore.Listing{Environment: exampleEnvironment, Limit: 100})
	for _, record := range records {
		fmt.Println(record.Key.User, record.State, record.Token.AccessToken.IsZero())
	}
	fmt.Println(err)
	// Output:
	// dr-17 active true
	// dr-18 active true
	// <nil>
}
