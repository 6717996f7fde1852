// Worker lists the patients of every practitioner who is connected, as a nightly
// job would:
//
//	go run ./examples/worker
//
// It starts a fake of the platform and connects some practitioners to it first.
// What a real worker does stands in worker.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/accounts"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// run sets the scene and does a night's work.
func run(ctx context.Context, out io.Writer) (err error) {
	platform, err := dispensarytest.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	users, err := newAccounts(platform)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, users.Close(ctx)) }()
	for i, user := range platform.Users() {
		if err := connect(ctx, platform, users, user, fmt.Sprintf("user-%d", i+1)); err != nil {
			return err
		}
	}
	return work(ctx, users, out)
}

// newAccounts knows one application, that of the fake.
func newAccounts(platform *dispensarytest.Server) (*accounts.Accounts, error) {
	registered := platform.Application()
	limiter, err := dispensary.NewRateLimiter(5000, 5*time.Minute) // what the platform is assumed to allow
	if err != nil {
		return nil, err
	}
	return accounts.New(accounts.Config{
		Applications: []oauth.Config{{
			Site: platform.Site(), ClientID: registered.ClientID,
			ClientSecret: dispensary.NewSecret(registered.ClientSecret), RedirectURL: registered.RedirectURI,
		}},
		Tokens: tokens.Config{Store: tokens.NewMemoryStore()}, // a real worker shares a database with the web servers
		Options: func(dispensary.Environment) []dispensary.Option {
			return []dispensary.Option{dispensary.WithLimiter(limiter)}
		},
	})
}

// connect does what the web application does when a user comes back from the
// platform; see the connect example.
func connect(ctx context.Context, platform *dispensarytest.Server, users *accounts.Accounts, person model.User, user string) error {
	conns, err := users.Connections(platform.Site().Environment)
	if err != nil {
		return err
	}
	state := oauth.NewState()
	address, err := conns.Client().AuthorizeURL(state)
	if err != nil {
		return err
	}
	back, err := platform.Approve(address, person)
	if err != nil {
		return err
	}
	code, err := oauth.ParseCallback(back.Query(), state)
	if err != nil {
		return err
	}
	return users.Connect(ctx, user, code)
}
