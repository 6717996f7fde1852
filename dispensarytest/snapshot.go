package dispensarytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Every snapshot begins with its format and version.
const (
	snapshotFormat  = "dispensary test platform"
	snapshotVersion = 1
)

// Why a snapshot is not loaded.
var (
	// ErrNoSnapshot: the content is empty, or something else.
	ErrNoSnapshot = errors.New("not a snapshot")

	// ErrSnapshotVersion: another version of this package wrote it.
	ErrSnapshotVersion = errors.New("a snapshot of another version")

	// ErrSnapshotDamaged: it is a snapshot, but parts are missing or wrong.
	ErrSnapshotDamaged = errors.New("a damaged snapshot")
)

// Snapshot is a platform at one moment: its world, consents and codes, webhook
// endpoint, deliveries and behaviors. Faults, the journal and open authorize pages
// are not part of it. It never changes, and can start any number of platforms.
type Snapshot struct{ state *state }

// state is a snapshot as it is saved.
type state struct {
	Format    string
	Version   int
	Seed      uint64
	Region    model.Region
	Frozen    time.Time     `json:",omitzero"` // where a frozen clock stands
	Offset    time.Duration `json:",omitzero"` // of a live clock
	Behaviors map[string]string
	World     *store.World
	Tokens    tokens.State
	Webhooks  webhooks.State
}

// snapshot returns the platform as it is now.
func (s *Server) snapshot() *Snapshot {
	s.store.Lock()
	defer s.store.Unlock()
	now := &state{
		Format: snapshotFormat, Version: snapshotVersion, Seed: s.set.seed, Region: s.set.region,
		Behaviors: maps.Clone(s.behaviors.Get().Chosen), World: s.store.World.Clone(), Tokens: s.tokens.State(), Webhooks: s.sender.State(),
	}
	if s.clock.Frozen() {
		now.Frozen = s.clock.Now()
	} else {
		now.Offset = s.clock.Offset()
	}
	return &Snapshot{now}
}

// Save writes the platform as it is now, as one line of JSON that [LoadSnapshot] and
// [Server.Load] read. It contains the platform's made-up patients and secrets. The line
// is the same as long as nothing changes but the time.
func (s *Server) Save(to io.Writer) error {
	if err := json.NewEncoder(to).Encode(s.snapshot().state); err != nil {
		return fmt.Errorf("dispensarytest: saving a snapshot: %w", err)
	}
	return nil
}

// LoadSnapshot reads the output of [Server.Save]. Errors are [ErrNoSnapshot],
// [ErrSnapshotVersion] and [ErrSnapshotDamaged].
func LoadSnapshot(from io.Reader) (*Snapshot, error) {
	content, err := io.ReadAll(from)
	if err == nil {
		var loaded *state
		if loaded, err = parseSnapshot(content); err == nil {
			return &Snapshot{loaded}, nil
		}
	}
	return nil, fmt.Errorf("dispensarytest: loading a snapshot: %w", err)
}

func parseSnapshot(content []byte) (*state, error) {
	var head struct {
		Format  string
		Version int
	}
	begun := bytes.HasPrefix(content, []byte(`{"Format":"`+snapshotFormat+`"`))
	switch err := json.Unmarshal(content, &head); {
	case len(bytes.TrimSpace(content)) == 0:
		return nil, fmt.Errorf("%w: it is empty", ErrNoSnapshot)
	case err != nil && begun:
		return nil, fmt.Errorf("%w: %w", ErrSnapshotDamaged, err)
	case err != nil || head.Format != snapshotFormat:
		return nil, ErrNoSnapshot
	case head.Version != snapshotVersion:
		return nil, fmt.Errorf("%w: it has version %d, this program reads version %d", ErrSnapshotVersion, head.Version, snapshotVersion)
	}
	var loaded state
	err := json.Unmarshal(content, &loaded)
	if err == nil {
		err = loaded.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshotDamaged, err)
	}
	return &loaded, nil
}

// check reports the first missing or wrong part.
func (s *state) check() error {
	_, err := s.reads()
	return errors.Join(s.World.Check(), err, s.Tokens.Check(), s.Webhooks.Check(), WithRegion(s.Region)(new(settings)))
}

func (s *state) reads() (behavior.Set, error) {
	reads := behavior.Defaults()
	for point, variant := range s.Behaviors {
		if err := reads.Choose(point, variant); err != nil {
			return reads, err
		}
	}
	return reads, nil
}

// clock makes the clock of a platform that starts from a snapshot.
func (s *state) clock() *clock.Clock {
	if s.Frozen.IsZero() {
		return clock.LiveAhead(s.Offset)
	}
	return clock.Frozen(s.Frozen)
}

// WithSnapshot starts a platform from a snapshot, in place of a world of seed and
// size. Tokens of the snapshot are good, and deliveries that are still due are
// made. Without [WithClock] the clock stands where the snapshot's stood, or is as
// far ahead.
func WithSnapshot(snap *Snapshot) Option {
	return func(s *settings) (err error) {
		if snap == nil {
			return errors.New("dispensarytest: WithSnapshot: no snapshot")
		}
		from := snap.state
		s.snapshot, s.seed, s.region, s.scopes = snap, from.Seed, from.Region, from.Tokens.Scopes
		s.behaviors, err = from.reads()
		return err
	}
}

// Load takes the platform back to a snapshot that [Server.Save] wrote, or to one of
// another platform of the same seed and region. Addresses, behaviors, the journal, the
// faults and the time stay as they are. Errors are those of [LoadSnapshot]. Load waits
// for the delivery under way, so a webhook receiver must not call it.
func (s *Server) Load(from io.Reader) error {
	snap, err := LoadSnapshot(from)
	if err != nil {
		return err
	}
	if loaded := snap.state; loaded.Seed != s.set.seed || loaded.Region != s.set.region {
		return errors.New("dispensarytest: Load: the snapshot is of another seed or region, start it with WithSnapshot")
	}
	s.restore(snap)
	return nil
}

func (s *Server) restore(snap *Snapshot) {
	defer s.clock.Pause()()
	from := snap.state
	s.clock.Drop(s.sender)
	s.store.Lock()
	defer s.store.Unlock()
	s.store.World = from.World.Clone()
	s.tokens.Restore(from.Tokens)
	s.sender.Restore(from.Webhooks)
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
	s.clock.Drop(s.sender)

	s.store.Lock()
	defer s.store.Unlock()
	s.ClearFaults()
	s.limit = nil // it was one of the faults
	s.putBehaviors(s.set.behaviors)
	s.store.World = newWorld(s.set)
	s.store.World.AddIntegrations(s.set.integrations)
	consents, endpoint := tokens.State{Scopes: s.set.scopes}, webhooks.State{}
	if s.set.snapshot != nil {
		consents, endpoint = s.set.snapshot.state.Tokens, s.set.snapshot.state.Webhooks
	}
	if s.set.webhook != nil {
		endpoint.Endpoint = webhooks.NewEndpoint(s.set.webhook.URL, s.set.webhook.Types)
	}
	s.tokens.Restore(consents)
	s.tokens.EndSessions()
	s.sender.Restore(endpoint)
	s.journal.Reset()
}

// newWorld is the world that the settings ask for.
func newWorld(s settings) *store.World {
	if s.snapshot != nil {
		return s.snapshot.state.World.Clone()
	}
	return store.NewWorld(s.seed, s.region, s.size)
}
