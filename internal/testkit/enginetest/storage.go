package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Storage is one empty place for events, and the claims of its engine. Open is required. A
// nil function skips the tests that need it.
type Storage struct {
	// Open opens an engine on the storage and starts its workers. The suite calls it again
	// after Close or Crash, and with Shared while others are open. It waits for the end of
	// leases, so use short ones.
	Open func(webhook.Work) (engine.Engine, error)

	// OpenSealed is Open with an AEAD of the suite, for engines with the method Reseal.
	OpenSealed func(webhook.Work, seal.AEAD) (engine.Engine, error)

	// Durable claims that everything accepted survives a restart.
	Durable bool

	// Shared claims that several processes may share the storage and the work.
	Shared bool

	// Ordered claims that the engine keeps order, and with it the stale guard.
	Ordered bool

	// Crash ends an engine as the end of its process would: its handlers have no effect any
	// more, and the engine records nothing. The suite lets the handlers return afterwards.
	Crash func(engine.Engine)

	// InTransaction calls the engine's function of that name with the context of a handler.
	// It inserts the text of the event's key into a table of the program, and calls then.
	InTransaction func(ctx context.Context, then func() error) error

	// Rows returns the rows of this table, and creates it if it does not exist.
	Rows func(*testing.T) []string

	// Dump returns everything at rest, as it is stored.
	Dump func(*testing.T) []byte

	// Patience is the longest wait for an event, the end of a lease included. 0 means two
	// minutes.
	Patience time.Duration
}
