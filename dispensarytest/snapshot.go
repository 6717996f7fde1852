package dispensarytest

import (
	"errors"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
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
	world      *store.World
	tokens     tokens.State
	sender     webhooks.SenderState
}

// fork is a world to write to.
func (s *Snapshot) fork() *store.World { return s.world.Fork() }

// Snapshot takes the platform as it is now: in well under a millisecond, whatever
// its size.
func (s *Server) Snapshot() *Snapshot {
	s.store.Lock()
	defer s.store.Unlock()
	snap := &Snapshot{
		seed: s.set.seed, region: s.set.region, compatible: s.set.compatible,
		at: s.clock.Now(), frozen: s.clock.Frozen(), offset: s.clock.Offset(), reads: *s.behaviors.Get(),
		world: store.Sealed(s.store.World.Fork()), tokens: s.tokens.State(), sender: s.sender.Snapshot(),
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
// the test. It is reached in the same way, at an address of its own if that takes
// a socket. Webhooks go to the same endpoint, but handlers in memory have to be
// hosted again; see [Server.Host]. Options change what they say.
func (s *Server) Fork(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return New(t, s.asItStands(opts)...)
}

// StartFork is [Server.Fork] without a test. The caller closes the second platform.
func (s *Server) StartFork(opts ...Option) (*Server, error) { return Start(s.asItStands(opts)...) }

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

// Restore takes the platform back to a snapshot of its own, or of another platform
// of the same seed and region. Addresses, the journal, the faults and the time stay
// as they are. It waits for the delivery under way, and must not be called from
// inside a webhook receiver.
func (s *Server) Restore(snap *Snapshot) {
	defer s.clock.Pause()()
	s.clock.Drop(s.sender)
	s.store.Lock()
	defer s.store.Unlock()
	s.store.World = snap.fork()
	s.tokens.Restore(snap.tokens)
	s.sender.Restore(snap.sender)
}
