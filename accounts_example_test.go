package dispensary_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/oauth"
)

// Accounts hold everything that calls for users need: each gets a client by the
// integrator's own id.
func ExampleAccounts() {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = platform.Close() }()
	app := platform.Application()
	accounts, err := dispensary.NewAccounts(dispensary.AccountsConfig{
		Applications: []oauth.Config{{
			Site: platform.Site(), ClientID: app.ClientID, ClientSecret: dispensary.Secret(app.ClientSecret),
			RedirectURL: app.RedirectURI,
		}},
		Store: oauth.NewMemoryStore(), // in production a database
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	client, err := accounts.Client(ctx, "dr-17")
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Clinic.Get(ctx)
	fmt.Println(errors.Is(err, dispensary.ErrReauthorize))
	account, err := accounts.Status(ctx, "dr-17")
	fmt.Println(account.Status, err)

	// The user presses connect and walks through the pages of Accounts.Handler.
	connectExample(accounts, platform)

	found, err := client.Clinic.Get(ctx)
	fmt.Println(found.PractitionerCount > 0, err)
	for account, err := range accounts.List(ctx, dispensary.AccountListOptions{}) {
		fmt.Println(account, err)
	}
	fmt.Println(accounts.Disconnect(ctx, "dr-17"), accounts.Shutdown(ctx))
	// Output:
	// true
	// not_connected <nil>
	// true <nil>
	// dispensary.Account{us/sandbox/dr-17 connected} <nil>
	// <nil> <nil>
}

// connectExample stands for the browser.
func connectExample(accounts *dispensary.Accounts, platform *dispensarytest.Server) {
	client, err := accounts.OAuth(platform.Site().Environment)
	if err != nil {
		log.Fatal(err)
	}
	address, err := client.AuthorizeURL("state-1")
	if err != nil {
		log.Fatal(err)
	}
	back, err := platform.Approve(address, dispensarytest.User{})
	if err != nil {
		log.Fatal(err)
	}
	if err := accounts.Connect(context.Background(), "dr-17", dispensary.Secret(back.Query().Get("code"))); err != nil {
		log.Fatal(err)
	}
}
