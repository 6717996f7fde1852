package cookbook_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
	"github.com/dispensary-go/dispensary/events"
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

func TestReceiver(t *testing.T) {
	t.Parallel()
	environment := dispensary.USSandbox
	receiver, _ := newReceiver(t, environment, "the webhook secret", "the challenge token")
	receivercheck.Run(t, receivercheck.Target{Handler: receiver, Secret: "the webhook secret", Challenge: "the challenge token"})
}
