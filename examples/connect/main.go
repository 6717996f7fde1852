// Connect is a small web application. A practitioner connects to the dispensary platform and
// disconnects:
//
//	go run ./examples/connect
//
// It also starts a fake platform. Open the printed URL, press Connect, and sign in with an account
// from the platform's page. app.go contains the application, as a real one would be. main.go starts the fake.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
)

func main() {
	address := flag.String("addr", "127.0.0.1:8080", "address to listen on; a loopback address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *address, func(at string) { fmt.Println("Open", at, "in a browser. Press Ctrl-C to stop.") }); err != nil {
		fmt.Fprintln(os.Stderr, "connect:", err)
		os.Exit(1)
	}
}

// run serves until ctx is canceled. It calls ready with its URL when it listens.
func run(ctx context.Context, address string, ready func(address string)) (err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	home := "http://" + listener.Addr().String()
	platform, err := dispensarytest.Start(dispensarytest.WithRedirectURI(home + callbackPath))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	registered := platform.Application()
	a, err := newApp(platform.Site(), registered.ClientID, dispensary.NewSecret(registered.ClientSecret), home, platform.Users()[0].ClinicID)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: a.routes(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	ready(home)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(ending), a.users.Close(ending))
}
