package cookbook_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	_ "github.com/dispensary-go/dispensary/integration/sqlite"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// newReceiver returns a webhook handler. It sends each order number to orders.
func newReceiver(t *testing.T, environment dispensary.Environment, secret, challenge string) (receiver *webhook.Handler, orders chan string) {
	t.Helper()
	orders = make(chan string, 100)
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		orders <- order.Object.OrderNumber
		return nil
	})
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close(context.Background()) }) // failing events may remain
	receiver, err = webhook.NewHandler(webhook.HandlerConfig{
		Environment: environment, Secrets: []dispensary.Secret{dispensary.NewSecret(secret)}, Challenge: dispensary.NewSecret(challenge), Inbox: inbox,
	})
	require.NoError(t, err)
	return receiver, orders
}

func TestOrderIsHandled(t *testing.T) {
	t.Parallel()
	platform := dispensarytest.New(t) // a fake platform on loopback, closed with the test
	app := platform.Application()
	receiver, orders := newReceiver(t, platform.Site().Environment, app.WebhookSecret, app.ChallengeToken)
	key := dispensary.NewSecret(platform.ClinicKey())
	client := platform.Client(platform.Users()[0], dispensary.WithClinicKey(key)) // the platform delivers only with a connected user
	_, err := client.Clinic.Get(t.Context())                                      // the first call with the key activates the integration
	require.NoError(t, err)

	require.NoError(t, platform.Webhooks.RegisterHandler(receiver))
	order, event, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(t, err)
	require.NoError(t, platform.Webhooks.WaitDelivered(t.Context(), event.ID)) // signed, sent and acknowledged
	assert.Equal(t, order.Number, <-orders)
}

// A test of a whole integration: a practitioner connects in the browser, and a patient orders. In a
// test, dispensarytest.New and t.TempDir replace the first lines.
func Example_wholeIntegration() {
	folder, err := os.MkdirTemp("", "ehr")
	must(err)
	defer func() { _ = os.RemoveAll(folder) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // before the platform, which redirects to it
	must(err)
	home := "http://" + listener.Addr().String()
	platform, err := dispensarytest.Start(dispensarytest.WithRedirectURI(home + "/dispensary/callback"))
	must(err)
	defer platform.Close()

	key, err := seal.GenerateKey("test")
	must(err)
	file := "sqlite:" + filepath.Join(folder, "ehr.db")
	config, err := integration.Load(append(platform.Variables(), "DISPENSARY_STORE="+file, "DISPENSARY_INBOX="+file,
		"DISPENSARY_SEAL_KEYS="+key.Text().Reveal(), "DISPENSARY_STATE_KEYS="+rand.Text()+rand.Text()))
	must(err)
	orders := make(chan string, 1)
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		orders <- order.Object.OrderNumber
		return nil
	})
	app, err := integration.Open(context.Background(), config, integration.Setup{
		Work:    webhook.Work{Handle: router.Dispatch},
		Connect: connect.Config{User: func(*http.Request) (string, error) { return "dr-17", nil }}, // from your session
		Drain:   -1,                                                                                // no load balancer
	})
	must(err)
	mux := http.NewServeMux()
	app.Mount(mux)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Serve(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}, listener) }()

	page, err := platform.Browser(platform.Users()[0]).Authorize(ctx, home+"/dispensary/connect?return_to=/healthz")
	must(err)
	must(page.Body.Close())
	must(platform.Webhooks.Register(home+"/webhooks/us-sandbox", model.EventOrderPlaced))
	order, _, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
	must(err)
	fmt.Println("handled:", <-orders == order.Number)
	stop()
	fmt.Println("ended:", <-ended)
	// Output:
	// handled: true
	// ended: <nil>
}

func TestReceiver(t *testing.T) {
	t.Parallel()
	environment := dispensary.USSandbox
	receiver, _ := newReceiver(t, environment, "the webhook secret", "the challenge token")
	receivercheck.Run(t, receivercheck.Target{Handler: receiver, Secret: "the webhook secret", Challenge: "the challenge token"})
}
