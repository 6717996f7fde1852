package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook"
)

// Accounts returns a client for each user by your own ID.
func ExampleAccounts() {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = platform.Close() }()
	app := platform.Application()
	users, err := accounts.New(accounts.Config{
		Applications: []oauth.Config{{
			Site: platform.Site(), ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret),
			RedirectURL: app.RedirectURI,
		}},
		Tokens: tokens.Config{Store: tokenstore.NewMemoryStore()}, // in production a database
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

	// The user presses connect and follows the pages of Accounts.Handler.
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

// An event has a clinic but no user. The handler calls as one of the clinic's users, or as
// another one if the first has to authorize again.
func ExampleAccounts_ForClinic() {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = platform.Close() }()
	app := platform.Application()
	users, err := accounts.New(accounts.Config{
		Applications: []oauth.Config{{
			Site: platform.Site(), ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret),
			RedirectURL: app.RedirectURI,
		}},
		Tokens: tokens.Config{Store: tokenstore.NewMemoryStore()},
	})
	if err != nil {
		log.Fatal(err)
	}
	connectExample(users, platform)

	var router webhook.Router
	router.OnOrderPlaced(func(ctx context.Context, order events.OrderEvent) error {
		environment := webhook.HandlingFrom(ctx).Key.Environment
		clinic, err := users.ForClinic(ctx, environment, order.ClinicID, accounts.ClinicOptions{})
		if err != nil {
			return err // a *ClinicError until a user of the clinic connects; the event is retried
		}
		current, err := clinic.Client.Clinic.Orders.Get(ctx, order.Object.ID)
		if err != nil {
			return err
		}
		fmt.Println(current.OrderNumber, "read as", clinic.User())
		return nil
	})

	// An engine calls the handler once the platform's webhook arrives.
	_, placed, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
	if err != nil {
		log.Fatal(err)
	}
	event, err := platform.Client(model.User{}).Events.Get(context.Background(), placed.ID)
	if err != nil {
		log.Fatal(err)
	}
	handling := webhook.Handling{Key: webhook.Key{Environment: platform.Site().Environment, EventID: event.ID}}
	fmt.Println(router.Dispatch(handling.Context(context.Background()), *event))
	// Output:
	// R410000004 read as dr-17
	// <nil>
}

// connectExample replaces the browser.
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
	if err := users.Connect(context.Background(), "dr-17", dispensary.NewSecret(back.Query().Get("code"))); err != nil {
		log.Fatal(err)
	}
}
