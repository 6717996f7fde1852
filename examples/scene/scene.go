// Package scene starts the fake platform for the examples that receive webhooks.
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

// Settings contains the values that a real program reads from its configuration: those of the platform's
// dashboard and its own keys.
type Settings struct {
	Environment dispensary.Environment
	Secret      dispensary.Secret // of signatures
	Challenge   dispensary.Secret
	Keys        *seal.KeyRing // encrypts events in the inbox
}

// Start starts a platform with an active clinic key, so it sends webhooks.
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

// order places an order of a patient, and waits until the webhook is delivered.
func order(ctx context.Context, platform *dispensarytest.Server) (number string, err error) {
	order, event, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
	if err != nil {
		return "", err
	}
	return order.Number, platform.Webhooks.WaitDelivered(ctx, event.ID)
}

// Orders places an order of a patient five times, and adds the numbers to placed.
func Orders(ctx context.Context, platform *dispensarytest.Server, placed map[string]bool) error {
	for range 5 {
		number, err := order(ctx, platform)
		if err != nil {
			return err
		}
		placed[number] = true
	}
	return nil
}
