package sqlstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

// On a single machine, store encrypted tokens in a file instead of on a server.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "tokens")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()

	// import "modernc.org/sqlite"
	// func init() { _, _ = sqlite.OFDLocking(true) } // on Linux, see OpenSQLite
	db, err := sqlstore.OpenSQLite("sqlite", filepath.Join(folder, "tokens.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	key, _ := seal.GenerateKey("2026") // your program reads its own: seal.ParseKeyRing(api.NewSecret(os.Getenv(…)))
	ring, _ := seal.NewKeyRing(key)
	store, err := sqlstore.Open(ctx, db, ring)
	if err != nil {
		log.Fatal(err)
	}

	us := api.USSandbox
	user := tokenstore.Key{Environment: us, User: "user-17"}
	if _, err := store.Save(ctx, user, oauth.Token{AccessToken: api.NewSecret("from Client.Exchange"), Environment: us}); err != nil {
		log.Fatal(err)
	}
	record, err := store.Load(ctx, user)
	fmt.Println(record.Key, record.State, err)
	// Output: us/sandbox/user-17 active <nil>
}
