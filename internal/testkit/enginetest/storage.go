package enginetest

import (
	"context"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Storage is one empty place where an engine keeps events, and what the engine
// claims. Open is required.
type Storage struct {
	// Open opens an engine on the storage, with its workers running. It is
	// called again for a restart, after Close or Crash, and with Shared while
	// others are open.
	//
	// An engine whose claims are leases should use short ones here: the suite
	// waits for their end.
	Open func(webhook.Work) (engine.Engine, error)

	// OpenSealed is Open with an AEAD of the suite's, for engines with the method
	// Reseal, see [engine.ResealPages]. Nil skips what needs it.
	OpenSealed func(webhook.Work, seal.AEAD) (engine.Engine, error)

	// Durable claims that everything accepted survives a restart.
	Durable bool

	// Shared claims that several processes may have the storage open, and share
	// the work.
	Shared bool

	// Ordered claims that the engine keeps order, and with it the stale guard.
	Ordered bool

	// Crash ends an engine as the end of its process would: what its handlers
	// do from then on has no effect, and nothing is recorded any more. The suite
	// lets the handlers return afterwards. Nil skips what needs it.
	Crash func(engine.Engine)

	// InTransaction calls the engine's function of that name in a handler, with its
	// context: it inserts the text of the event's key into a table of the program's
	// own, and then calls the function. Nil skips what needs it.
	InTransaction func(ctx context.Context, then func() error) error

	// Rows returns what is in that table, which its first call makes.
	Rows func(*testing.T) []string

	// Dump returns everything that is at rest, as it is stored. Nil skips the
	// search for patient data in it.
	Dump func(*testing.T) []byte

	// Patience is how long the suite waits for something that has to happen,
	// the end of a dead worker's lease included, before it fails; 0 means two
	// minutes, which is enough on a machine that does other things too.
	Patience time.Duration
}

// Run runs the suite. It calls create for every test in it.
func Run(t *testing.T, create func(*testing.T) Storage) {
	t.Helper()
	for section, tests := range map[string]map[string]func(*harness){
		"Accept": accepting, "Attempts": attempts, "DeadLetters": deadLetters, "Held": holding,
		"Order": ordering, "Stale": staleness, "Stats": statistics, "Close": closing, "Crash": crashes,
		"Transaction": transactions, "Sealed": sealing, "Checkpoint": reconciling(),
	} {
		t.Run(section, func(t *testing.T) {
			t.Parallel()
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					r := newHarness(t, create(t))
					r.need(r.storage.Ordered || section != "Order" && section != "Stale", "Ordered")
					test(r)
				})
			}
		})
	}
}
