package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Inbox is a [webhook.Inbox] that [Clinics] can fill. It knows which events it has
// never seen, and stores the checkpoints beside them. The engines of this module
// implement it.
type Inbox interface {
	webhook.Inbox
	Checkpoints

	// Missing returns those of keys that were never accepted, in the order they
	// were given, without repeats. A key counts as accepted for as long as Accept
	// would call it a duplicate: whether the event is waiting, was handled, given
	// up or discarded. It is called with up to a few hundred keys at a time.
	//
	// An answer may be out of date when it arrives: what is accepted meanwhile is
	// recognised by Accept.
	Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error)
}

// Checkpoints stores the state of [Clinics] between runs, and lets one replica
// run at a time. A checkpoint has a name, a holder for the time being
// and a state of at most 64 KB, which holds neither patient data nor secrets.
//
// Time is that of the storage, not of the caller, so that the clocks of replicas
// may disagree.
type Checkpoints interface {
	// ClaimCheckpoint makes holder the holder of a checkpoint until ttl has
	// passed, and returns the state that was saved last, nil if none ever was.
	// Claiming a checkpoint that holder has already extends the claim. While
	// another one holds it, the error is [ErrCheckpointHeld].
	ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) (state []byte, err error)

	// SaveCheckpoint replaces the state durably and extends the claim to ttl from
	// now. If holder's claim has ended and another may have begun, nothing is
	// saved, and the error is [ErrCheckpointHeld].
	SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error

	// ReleaseCheckpoint ends the claim of holder before its time. Where holder
	// has none, it does nothing.
	ReleaseCheckpoint(ctx context.Context, name, holder string) error
}

// ErrCheckpointHeld is returned where another replica holds a checkpoint, or has
// held it since.
var ErrCheckpointHeld = errors.New("reconcile: checkpoint is held by another replica")

// safeInbox turns the panics of an inbox into errors. [Clinics] calls it on
// goroutines that nothing else protects, also with events that the program's own
// functions, such as [webhook.Work].Order, cannot take.
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
