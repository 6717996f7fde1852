// Package scene starts the fake of the platform for examples that receive webhooks.
package scene

import (
	"context"
	"errors"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/seal"
)

// Settings are the values that a real program reads from its configuration: those of the
// platform's dashboard, and its own keys.
type Settings struct {
	Environment dispensary.Environment
	Secret      dispensary.Secret // of the signatures
	Challenge   dispensary.Secret
	Keys        *seal.KeyRing // encrypts events in the inbox
}

// Start starts a platform whose clinic key is active, so that it sends webhooks.
func Start() (*dispensarytest.Server, Settings, error) {
	key, err := seal.GenerateKey("example")
	if err != nil {
		return nil, Settings{}, err
	}
	keys, err := seal.NewKeyRing(key)
	if err != nil {
		return nil, Settings{}, err
	}
	platform, err := dispensarytest.Start(dispensarytest.WithBehavior(behavior.DeliveryConditionsOff))
	if err != nil {
		return nil, Settings{}, err
	}
	if _, err := platform.Clinics.ActivateKey(platform.ClinicKey()); err != nil {
		return nil, Settings{}, errors.Join(err, platform.Close())
	}
	application := platform.Application()
	return platform, Settings{
		Environment: platform.Site().Environment,
		Secret:      dispensary.NewSecret(application.WebhookSecret),
		Challenge:   dispensary.NewSecret(application.ChallengeToken),
		Keys:        keys,
	}, nil
}

// Order lets a patient order, and waits until the webhook is delivered.
func Order(ctx context.Context, platform *dispensarytest.Server) (number string, err error) {
	order, event, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
	if err != nil {
		return "", err
	}
	return order.Number, platform.Webhooks.WaitDelivered(ctx, event.ID)
}

// Orders lets a patient order five times, and adds the numbers to placed.
func Orders(ctx context.Context, platform *dispensarytest.Server, placed map[string]bool) error {
	for range 5 {
		number, err := Order(ctx, platform)
		if err != nil {
			return err
		}
		placed[number] = true
	}
	return nil
}
