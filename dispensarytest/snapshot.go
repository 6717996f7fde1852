package dispensarytest

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
)

// Snapshot is a platform at one moment: its world, consents and codes, webhook
// endpoint, deliveries and readings. Faults, the journal and open authorize pages
// are not part of it. It never changes, and can be used any number of times; it
// shares with its platform whatever neither has changed since.
type Snapshot struct {
	seed       uint64
	region     Region
	compatible uint64
	at         time.Time     // on the platform's clock
	frozen     bool          // so was the clock
	offset     time.Duration // of a live clock
	reads      readings
	world      *world
	tokens     tokenState
	sender     senderState
}

// fork is a world to write to.
func (s *Snapshot) fork() *world { return s.world.fork() }

// Snapshot takes the platform as it is now: in well under a millisecond, whatever
// its size.
func (s *Server) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := &Snapshot{
		seed: s.set.seed, region: s.set.region, compatible: s.set.compatible,
		at: s.clock.Now(), frozen: s.clock.Frozen(), offset: s.clock.Offset(), reads: *s.reads(),
		world: sealed(s.world.fork()), tokens: s.tokens.state(), sender: s.sender.snapshot(),
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
		s.snapshot, s.seed, s.region, s.compatible, s.scopes = snap, snap.seed, snap.region, snap.compatible, snap.tokens.scopes
		s.readings = snap.reads
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
		to.readings, to.clock, to.addr = *s.reads(), nil, defaultAddr
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world = snap.fork()
	s.tokens.restore(snap.tokens)
	s.sender.restore(snap.sender)
}

// tokenState is what a token store knows, all of it copied.
type tokenState struct {
	scopes  []string
	issued  int
	grants  []grant
	access  []accessState
	refresh map[string]int // to the grant's number
	codes   map[string]authCode
}

type accessState struct {
	token   *accessToken // its grant and use aside
	grant   int
	expires time.Time
	used    bool
	revoked bool
}

// state copies the store.
func (s *tokenStore) state() tokenState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := tokenState{scopes: slices.Clone(s.scopes), issued: s.issued, refresh: make(map[string]int), codes: maps.Clone(s.codes)}
	numbers := make(map[*grant]int)
	number := func(g *grant) int {
		if n, known := numbers[g]; known {
			return n
		}
		numbers[g] = len(out.grants)
		out.grants = append(out.grants, *g)
		return numbers[g]
	}
	for _, value := range slices.Sorted(maps.Keys(s.access)) { // in an order of their own: equal states are written alike
		t := s.access[value]
		out.access = append(out.access, accessState{token: t, grant: number(t.grant), expires: t.expires, used: t.used.Load(), revoked: t.revoked})
	}
	for _, value := range slices.Sorted(maps.Keys(s.refresh)) {
		out.refresh[value] = number(s.refresh[value])
	}
	return out
}

// restore puts a copied state in place.
func (s *tokenStore) restore(from tokenState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	grants := make([]*grant, len(from.grants))
	for i := range grants {
		grants[i] = new(from.grants[i])
	}
	s.scopes, s.issued, s.codes = slices.Clone(from.scopes), from.issued, maps.Clone(from.codes)
	s.access, s.refresh = make(map[string]*accessToken), make(map[string]*grant)
	for _, a := range from.access {
		t := &accessToken{
			id: a.token.id, value: a.token.value, grant: grants[a.grant], allowed: a.token.allowed, clinicID: a.token.clinicID,
			created: a.token.created, refresh: a.token.refresh, expires: a.expires, revoked: a.revoked, supersedes: a.token.supersedes,
		}
		t.used.Store(a.used)
		s.access[t.value] = t
	}
	for value, n := range from.refresh {
		s.refresh[value] = grants[n]
	}
}
