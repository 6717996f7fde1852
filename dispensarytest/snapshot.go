package dispensarytest

import (
	"errors"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Snapshot is a platform at one moment: its world, consents and codes, webhook
// endpoint, deliveries and behaviors. Faults, the journal and open authorize pages
// are not part of it. It never changes, and can be used any number of times; it
// shares with its platform whatever neither has changed since.
type Snapshot struct {
	seed       uint64
	region     model.Region
	compatible uint64
	at         time.Time     // on the platform's clock
	frozen     bool          // so was the clock
	offset     time.Duration // of a live clock
	reads      behavior.Set
	tokens     tokens.State
	world      any // *snapshotWorld, as [Server] has its parts
}

type snapshotWorld struct {
	*store.World
	sender webhooks.SenderState
}

//go:noinline
func worldOf(s *Snapshot) *snapshotWorld { return s.world.(*snapshotWorld) }

// Snapshot takes the platform as it is now: in well under a millisecond, whatever
// its size.
func (s *Server) Snapshot() *Snapshot {
	p := partsOf(s)
	p.store.Lock()
	defer p.store.Unlock()
	snap := &Snapshot{
		seed: s.set.seed, region: s.set.region, compatible: s.set.compatible,
		at: s.clock.Now(), frozen: s.clock.Frozen(), offset: s.clock.Offset(), reads: *s.behaviors.Get(),
		tokens: s.tokens.State(), world: &snapshotWorld{store.Sealed(p.store.World.Fork()), p.sender.Snapshot()},
	}
	return snap
}

// WithSnapshot starts a platform from a snapshot, in place of a world of seed and
// size. Tokens of the snapshot are good, and deliveries that are still due are
// made. Without [WithClock] the clock stands where the snapshot's stood, or is as
// far ahead.
func WithSnapshot(snap *Snapshot) Option {
	return func(s *settings) error {
		if snap == nil {
			return errors.New("dispensarytest: WithSnapshot: no snapshot")
		}
		s.snapshot, s.seed, s.region, s.compatible, s.scopes = snap, snap.seed, snap.region, snap.compatible, snap.tokens.Scopes
		s.behaviors = snap.reads
		return nil
	}
}

// clock makes the clock of a platform that starts from a snapshot.
func (s *Snapshot) clock() *clock.Clock {
	if s.frozen {
		return clock.Frozen(s.at)
	}
	return clock.LiveAhead(s.offset)
}

// Fork starts a second platform that begins as this one stands, and closes it with
// the test. It is reached in the same way, at another address if that takes
// a socket. Webhooks go to the same endpoint, but handlers in memory have to be
// hosted again; see [Server.Host]. Options change what they say.
func (s *Server) Fork(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return New(t, s.asItStands(opts)...)
}

// asItStands are the options of a fork.
func (s *Server) asItStands(opts []Option) []Option {
	same := func(to *settings) error {
		*to = s.set
		to.behaviors, to.clock, to.addr = *s.behaviors.Get(), nil, defaultAddr
		to.webhook = nil // the snapshot has it
		return nil
	}
	return append([]Option{same, WithSnapshot(s.Snapshot())}, opts...)
}

// Restore takes the platform back to one of its snapshots, or to one of another platform
// of the same seed and region. Addresses, behaviors, the journal, the faults and the time
// stay as they are. It waits for the delivery under way, and must not be called from
// inside a webhook receiver.
func (s *Server) Restore(snap *Snapshot) {
	defer s.clock.Pause()()
	p, world := partsOf(s), worldOf(snap)
	s.clock.Drop(p.sender)
	p.store.Lock()
	defer p.store.Unlock()
	p.store.World = world.Fork()
	s.tokens.Restore(snap.tokens)
	p.sender.Restore(world.sender)
}

// Reset takes the platform back to how it started: to the world of its seed and
// size, with no tokens, no deliveries and the webhook endpoint of [WithWebhook] or
// none; or, with [WithSnapshot], to what the snapshot has of all that. Behaviors
// are again those of its options, there are no faults, no browser is signed in, and
// the journal is empty. Addresses and credentials stay, and so does the time. A
// stand-alone platform is reset between the tests of another language; in Go, a new
// platform for each test is as quick.
//
// It must not be called from inside a webhook receiver of this platform: it waits
// for the delivery under way.
func (s *Server) Reset() {
	// While the clock is paused no delivery is under way, and none of the old ones
	// starts any more.
	defer s.clock.Pause()()
	p := partsOf(s)
	s.clock.Drop(p.sender)

	p.store.Lock()
	defer p.store.Unlock()
	s.ClearFaults()
	s.limit = nil // it was one of the faults
	s.putBehaviors(s.set.behaviors)
	p.store.World = newWorld(s.set)
	p.store.World.AddIntegrations(s.set.integrations)
	tokens, webhooks := tokens.State{Scopes: s.set.scopes, Codes: make(map[string]tokens.AuthCode)}, webhooks.SenderState{}
	if s.set.snapshot != nil {
		tokens, webhooks = s.set.snapshot.tokens, worldOf(s.set.snapshot).sender
	}
	if s.set.webhook != nil {
		webhooks.Endpoint = s.set.webhook.fresh()
	}
	s.tokens.Restore(tokens)
	s.tokens.EndSessions()
	p.sender.Restore(webhooks)
	s.journal.Reset()
}

// WithWorldSize makes a world of that size, which begins with the default one. The
// same seed and size make the same world, id by id. Each clinic has its own users, see
// [Server.Users], and its own categories; every second one is invited to the restricted
// brands.
func WithWorldSize(size model.WorldSize) Option {
	return func(s *settings) error {
		if min(size.Clinics, size.Patients, size.Products, size.Plans, size.Orders) < 0 {
			return errors.New("dispensarytest: WithWorldSize: a negative number")
		}
		s.size = size
		return nil
	}
}

// newWorld is the world that the settings ask for.
func newWorld(s settings) *store.World {
	if s.snapshot != nil {
		return worldOf(s.snapshot).Fork()
	}
	return store.NewWorld(s.seed, s.region, s.compatible != 0, s.size)
}

// Scopes are the scopes of the API, and the names of the groups clinic and patients,
// which stand for all scopes of theirs. API section: "Authentication" 7.
func Scopes() []string { return operations.Scopes() }
