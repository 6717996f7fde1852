package reconcile

import (
	"context"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Inbox is a [webhook.Inbox] for [Clinics]. The inboxes of this module implement it.
//
// It stores checkpoints, the state of [Clinics] between runs. A claim on a checkpoint lets
// only one replica run at a time. A checkpoint has a name, a holder while it is claimed, and a
// state of at most 64 KB. The state contains neither patient data nor secrets. Claims expire
// by the clock of the storage.
type Inbox interface {
	webhook.Inbox

	// Missing returns the keys that were never accepted, in their order, without repeats. A
	// key counts as accepted if Accept would report a duplicate, regardless of the state of
	// the event. It is called with up to 300 keys. Accept recognizes an event that arrives
	// after the call.
	Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error)

	// ClaimCheckpoint claims a checkpoint for ttl, and returns the last saved state, or nil. A
	// second claim of the same holder extends the first. ClaimCheckpoint fails with
	// [engine.ErrCheckpointHeld] while another holder has the checkpoint.
	ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) (state []byte, err error)

	// SaveCheckpoint replaces the state durably and extends the claim to ttl from now. If the
	// claim has expired, it saves nothing and returns [engine.ErrCheckpointHeld].
	SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error

	// ReleaseCheckpoint ends the claim of holder. Without a claim it does nothing.
	ReleaseCheckpoint(ctx context.Context, name, holder string) error
}

// safeInbox returns panics of an inbox as errors. Your functions, such as
// [webhook.Work].Order, can panic on an event.
type safeInbox struct{ inbox Inbox }

func (s safeInbox) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	return safecall.Value(func() (webhook.Receipt, error) { return s.inbox.Accept(ctx, d) })
}

func (s safeInbox) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	return safecall.Value(func() ([]webhook.Key, error) { return s.inbox.Missing(ctx, keys) })
}

func (s safeInbox) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	return safecall.Value(func() ([]byte, error) { return s.inbox.ClaimCheckpoint(ctx, name, holder, ttl) })
}

func (s safeInbox) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	return safecall.Call(func() error { return s.inbox.SaveCheckpoint(ctx, name, holder, state, ttl) })
}

func (s safeInbox) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	return safecall.Call(func() error { return s.inbox.ReleaseCheckpoint(ctx, name, holder) })
}
