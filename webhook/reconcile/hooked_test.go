package reconcile_test

import (
	"context"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// hooked is an inbox with a function that is called before each method, with its name:
// what it returns, or panics with, is what the method fails with.
type hooked struct {
	reconcile.Inbox
	before func(method string, d webhook.Delivery) error
}

// onAccept is a hook of Accept alone.
func onAccept(f func() error) func(string, webhook.Delivery) error {
	return func(method string, _ webhook.Delivery) error {
		if method == "Accept" {
			return f()
		}
		return nil
	}
}

func (h hooked) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if err := h.before("Accept", d); err != nil {
		return webhook.Receipt{}, err
	}
	return h.Inbox.Accept(ctx, d)
}

func (h hooked) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	if err := h.before("Missing", webhook.Delivery{}); err != nil {
		return nil, err
	}
	return h.Inbox.Missing(ctx, keys)
}

func (h hooked) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	if err := h.before("ClaimCheckpoint", webhook.Delivery{}); err != nil {
		return nil, err
	}
	return h.Inbox.ClaimCheckpoint(ctx, name, holder, ttl)
}

func (h hooked) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	if err := h.before("SaveCheckpoint", webhook.Delivery{}); err != nil {
		return err
	}
	return h.Inbox.SaveCheckpoint(ctx, name, holder, state, ttl)
}

func (h hooked) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	if err := h.before("ReleaseCheckpoint", webhook.Delivery{}); err != nil {
		return err
	}
	return h.Inbox.ReleaseCheckpoint(ctx, name, holder)
}
