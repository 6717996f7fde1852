package cookbook_test

import (
	"context"
	"io"
	"log"
	"net/http"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// must exits the program on an error.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// start returns a fake platform. It delivers webhooks even without a connected user and without a call with
// the clinic key.
func start(options ...dispensarytest.Option) *dispensarytest.Server {
	platform, err := dispensarytest.Start(append(options, dispensarytest.WithBehavior(behavior.DeliveryConditionsOff, behavior.IntegrationActivationFromTheStart))...)
	must(err)
	return platform
}

// application returns the settings of an application from the developer dashboard.
func application(platform *dispensarytest.Server) oauth.Config {
	app := platform.Application()
	return oauth.Config{
		Site: platform.Site(), ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret), RedirectURL: app.RedirectURI,
	}
}

// newAccounts returns the accounts of the users of an application.
func newAccounts(platform *dispensarytest.Server) *accounts.Accounts {
	users, err := accounts.New(accounts.Config{
		Applications: []oauth.Config{application(platform)},
		Tokens:       tokens.Config{Store: tokenstore.NewMemoryStore()}, // in production a database
	})
	must(err)
	return users
}

// approve presses "Authorize" on the platform's page as a user, and runs the callback.
func approve(ctx context.Context, users *accounts.Accounts, platform *dispensarytest.Server, user string) {
	connections, err := users.Connections(platform.Site().Environment)
	must(err)
	address, err := connections.Client().AuthorizeURL(oauth.NewState())
	must(err)
	back, err := platform.Approve(address, platform.Users()[0])
	must(err)
	must(users.Connect(ctx, user, dispensary.NewSecret(back.Query().Get("code"))))
}

// textOf reads a response.
func textOf(response *http.Response) string {
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(err)
	return string(text)
}
