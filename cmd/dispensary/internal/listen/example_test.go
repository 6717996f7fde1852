package listen_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/listen"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// A receiver on this machine gets what happens on the platform, without an address that the
// platform could reach.
func ExampleListener_Run() {
	const secret, challenge = "any secret", "any challenge"
	environment := api.Environment{Region: api.US, Stage: api.Sandbox}
	handled := make(chan string)
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		handled <- order.Data.OrderNumber
		return nil
	})
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch}})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: environment, Secrets: []api.Secret{api.NewSecret(secret)}, Challenge: api.NewSecret(challenge), Inbox: inbox,
	})
	if err != nil {
		log.Fatal(err)
	}
	receiver := httptest.NewServer(handler)
	defer receiver.Close()

	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = platform.Close() }()
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()

	forwarder, err := listen.NewForwarder(listen.ForwarderConfig{URL: receiver.URL, Secret: api.NewSecret(secret), Challenge: api.NewSecret(challenge)})
	if err != nil {
		log.Fatal(err)
	}
	client := platform.Client(platform.Users()[0])
	clinic, err := client.Clinic.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	listener, err := listen.New(listen.Config{
		Sources:   []listen.Source{{Name: clinic.ID, Environment: environment, Events: client.Events, Integrations: []string{clinic.IntegrationID}}},
		Forwarder: forwarder,
		Cursor:    filepath.Join(folder, "cursor.json"),
		Since:     2 * time.Hour,
		Observer: listen.Observer{ForwardEnd: func(_ context.Context, a listen.Answer) {
			fmt.Println(a.Type, a.Status, a.Challenge)
		}},
	})
	if err != nil {
		log.Fatal(err)
	}

	if _, _, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.NewOrder{}); err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		fmt.Println("handled", <-handled)
		stop()
	}()
	if err := listener.Run(ctx); !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	// Unordered output:
	// order.placed 200 true
	// handled R410000004
}

// One event is sent again, to see what a receiver answers.
func ExampleForwarder_Forward() {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = platform.Close() }()
	_, happened, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.NewOrder{})
	if err != nil {
		log.Fatal(err)
	}

	forwarder, err := listen.NewForwarder(listen.ForwarderConfig{URL: receiver.URL, Secret: api.NewSecret("any secret"), Challenge: api.NewSecret("any challenge")})
	if err != nil {
		log.Fatal(err)
	}
	event, err := platform.Client(platform.Users()[0]).Events.Get(context.Background(), happened.ID)
	if err != nil {
		log.Fatal(err)
	}
	key := webhook.Key{Environment: platform.Site().Environment, EventID: event.ID}
	answer := forwarder.Forward(context.Background(), key, *event)
	fmt.Println(answer.Err)
	// Output:
	// listen: not acknowledged: status 204 is neither 200 nor 201
}
