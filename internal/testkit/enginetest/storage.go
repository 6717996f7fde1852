package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Storage describes an empty storage for events and the claims of its engine. Open is
// required. A nil function skips the tests that need it.
type Storage struct {
	// Open opens an engine on the storage and starts its workers. The suite calls it again
	// after Close or Crash. If Shared is set, it also calls it while other engines are open.
	// It waits until leases expire, so use short ones.
	Open func(webhook.Work) (engine.Engine, error)

	// OpenSealed is Open with an AEAD of the suite, for engines with the method Reseal.
	OpenSealed func(webhook.Work, seal.AEAD) (engine.Engine, error)

	// Durable claims that accepted events survive a restart.
	Durable bool

	// Shared claims that several processes may share the storage and the work.
	Shared bool

	// Ordered claims support for ordering keys and the stale guard.
	Ordered bool

	// Crash stops an engine as the end of its process would: its handlers have no further
	// effect, and the engine records nothing. The suite lets the handlers return afterwards.
	Crash func(engine.Engine)

	// InTransaction calls the engine's function of that name with the context of a handler. It
	// inserts the text of the event's key into a table of the program, and calls then.
	InTransaction func(ctx context.Context, then func() error) error

	// Rows returns the rows of this table. It creates the table if it does not exist.
	Rows func(*testing.T) []string

	// Dump returns the raw bytes of the storage.
	Dump func(*testing.T) []byte

	// Patience is the longest wait for an event, including the expiry of a lease. 0 means two
	// minutes.
	Patience time.Duration
}
