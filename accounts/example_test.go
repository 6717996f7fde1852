package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/accounts"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
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
	users, err := accounts.New(accounts.Config{
		Applications: []oauth.Config{{
			Site: platform.Site(), ClientID: app.ClientID, ClientSecret: dispensary.Secret(app.ClientSecret),
			RedirectURL: app.RedirectURI,
		}},
		Tokens: tokens.Config{Store: tokens.NewMemoryStore()}, // in production a database
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	client, err := users.Client(ctx, "dr-17")
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Clinic.Get(ctx)
	fmt.Println(errors.Is(err, dispensary.ErrReauthorize))
	account, err := users.Status(ctx, "dr-17")
	fmt.Println(account.Status, err)

	// The user presses connect and walks through the pages of Accounts.Handler.
	connectExample(users, platform)

	found, err := client.Clinic.Get(ctx)
	fmt.Println(found.PractitionerCount > 0, err)
	for account, err := range users.List(ctx, accounts.ListOptions{}) {
		fmt.Println(account, err)
	}
	fmt.Println(users.Disconnect(ctx, "dr-17"), users.Close(ctx))
	// Output:
	// true
	// not_connected <nil>
	// true <nil>
	// accounts.Account{us/sandbox/dr-17 connected} <nil>
	// <nil> <nil>
}

// connectExample stands for the browser.
func connectExample(users *accounts.Accounts, platform *dispensarytest.Server) {
	conns, err := users.Connections(platform.Site().Environment)
	if err != nil {
		log.Fatal(err)
	}
	address, err := conns.Client().AuthorizeURL("state-1")
	if err != nil {
		log.Fatal(err)
	}
	back, err := platform.Approve(address, model.User{})
	if err != nil {
		log.Fatal(err)
	}
	if err := users.Connect(context.Background(), "dr-17", dispensary.Secret(back.Query().Get("code"))); err != nil {
		log.Fatal(err)
	}
}
