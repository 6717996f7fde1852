// This program integrates the dispensary: your users connect their accounts in the browser,
// and it stores the orders of their patients. It receives webhooks, recovers events whose
// webhooks were lost, and has a page on which operators replay failed events.
//
// Read login.go and webhooks.go next: both have functions to replace with your own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dispensary-go/dispensary/integration"
	_ "github.com/dispensary-go/dispensary/integration/sqlite" // or postgres, as in the URLs of your databases
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
)

func main() {
	address := flag.String("addr", "127.0.0.1:8080", "listen on `HOST:PORT`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs the program until ctx ends or the server fails.
func run(ctx context.Context, address string) error {
	config, err := settings()
	if err != nil {
		return err // lists every problem with the name of its variable
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	a, err := open(ctx, config)
	if err != nil {
		return err
	}
	fmt.Printf("Open http://%s in a browser. End with Ctrl-C.\n", listener.Addr())
	return a.serve(ctx, listener)
}

// settings reads the environment, and the file .env if there is one. See .env.example.
func settings() (integration.Config, error) {
	if _, err := os.Stat(".env"); errors.Is(err, fs.ErrNotExist) {
		return integration.Load(os.Environ())
	}
	return integration.Load(os.Environ(), ".env")
}

// app is your application.
type app struct {
	dispensary *integration.Integration
	orders     orders
}

// open opens the integration, which handles events once serve is called.
func open(ctx context.Context, config integration.Config) (*app, error) {
	if err := checkLogin(config); err != nil {
		return nil, err
	}
	if config.Inbox.IsZero() {
		return nil, errors.New("DISPENSARY_INBOX is empty: webhooks need an inbox")
	}
	a := &app{}
	var router webhook.Router
	router.OnOrderPlaced(a.orderPlaced)
	var err error
	a.dispensary, err = integration.Open(ctx, config, integration.Setup{
		Work:     webhook.Work{Handle: router.Dispatch, Order: webhook.ByPatient},
		Connect:  connect.Config{User: signedIn},
		Accounts: accounts.Config{Tokens: tokens.Config{Verify: ownClinic}},
		// Without this, another site could reach the page by DNS rebinding.
		Operations: admin.Config{Hosts: hosts(config)},
		Drain:      -1, // remove this line if a load balancer is in front of the program
		Logger:     slog.Default(),
	})
	return a, err
}

// hosts returns the hosts of this program: users return to them from the platform.
func hosts(config integration.Config) (all []string) {
	for _, application := range config.Applications {
		if u, err := url.Parse(application.RedirectURL); err == nil {
			all = append(all, u.Host)
		}
	}
	return all
}

// serve serves until ctx ends or the server fails. It stops everything before it returns.
func (a *app) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: a.routes(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	return a.dispensary.Serve(ctx, server, listener)
}

// routes returns all pages and endpoints.
func (a *app) routes() http.Handler {
	mux := http.NewServeMux()
	a.dispensary.Mount(mux) // /dispensary/connect, /dispensary/callback, /webhooks/us-sandbox, /healthz, /readyz
	operations := http.StripPrefix("/operations", a.dispensary.Operations)
	mux.HandleFunc("/operations/", func(w http.ResponseWriter, r *http.Request) {
		if !isOperator(r) {
			http.Error(w, "This page is for operators.", http.StatusForbidden)
			return
		}
		operations.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /{$}", a.home)
	return mux
}
