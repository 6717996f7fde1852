package dispensarytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
)

// Every snapshot begins with its format and version.
const (
	snapshotFormat  = "dispensary test platform"
	snapshotVersion = 2
)

// Reasons for rejecting a snapshot.
var (
	errNoSnapshot      = errors.New("not a snapshot")
	errSnapshotVersion = errors.New("a snapshot of another format version")
	errSnapshotDamaged = errors.New("a damaged snapshot")
)

// state is the state of a platform at one moment: its world, consents and codes, webhook
// endpoint, deliveries and behaviors. It is immutable, so platforms can share it.
type state struct {
	Format      string
	Version     int
	Seed        uint64
	Environment api.Environment
	Frozen      time.Time     `json:",omitzero"` // time of a frozen clock
	Offset      time.Duration `json:",omitzero"` // of a live clock
	Behaviors   []behavior.Variant
	World       *store.World
	Tokens      tokens.State
	Webhooks    webhooks.State
}

func parseSnapshot(content []byte) (*state, error) {
	var head struct {
		Format  string
		Version int
	}
	begun := bytes.HasPrefix(content, []byte(`{"Format":"`+snapshotFormat+`"`))
	switch err := json.Unmarshal(content, &head); {
	case len(bytes.TrimSpace(content)) == 0:
		return nil, fmt.Errorf("%w: it is empty", errNoSnapshot)
	case err != nil && begun:
		return nil, fmt.Errorf("%w: %w", errSnapshotDamaged, err)
	case err != nil || head.Format != snapshotFormat:
		return nil, errNoSnapshot
	case head.Version != snapshotVersion:
		return nil, fmt.Errorf("%w: it has version %d, this program reads version %d", errSnapshotVersion, head.Version, snapshotVersion)
	}
	var loaded state
	err := json.Unmarshal(content, &loaded)
	if err == nil {
		err = loaded.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSnapshotDamaged, err)
	}
	return &loaded, nil
}

// check returns an error if parts are missing or invalid.
func (s *state) check() error {
	var environment error
	if !s.Environment.IsSandbox() {
		environment = fmt.Errorf("unknown sandbox %q", s.Environment)
	}
	_, err := s.rules()
	return errors.Join(s.World.Check(), err, s.Tokens.Check(), s.Webhooks.Check(), environment)
}

func (s *state) rules() (rules.Set, error) {
	behaviors := rules.Defaults()
	for _, v := range s.Behaviors {
		if err := behaviors.Choose(v); err != nil {
			return behaviors, err
		}
	}
	return behaviors, nil
}

// clock returns the clock of a platform that starts from the snapshot.
func (s *state) clock() *clock.Clock {
	if s.Frozen.IsZero() {
		return clock.LiveAhead(s.Offset)
	}
	return clock.Frozen(s.Frozen)
}

// state returns the current state of the platform.
func (s *Server) state() *state {
	s.store.Lock()
	defer s.store.Unlock()
	now := &state{
		Format: snapshotFormat, Version: snapshotVersion, Seed: s.set.Seed, Environment: s.set.environment,
		Behaviors: s.rules.Get().Variants(), World: s.store.Freeze(), Tokens: s.tokens.State(), Webhooks: s.sender.State(),
	}
	if s.clock.Frozen() {
		now.Frozen = s.clock.Now()
	} else {
		now.Offset = s.clock.Offset()
	}
	return now
}

// Snapshot returns the current state of the platform as one line of JSON for [WithSnapshot]:
// its world, consents and codes, webhook endpoint, deliveries and behaviors. It contains the
// made-up patients and secrets of the platform. It omits faults, the journal and open
// authorize pages. The line does not change if only time passes.
func (s *Server) Snapshot() ([]byte, error) {
	line, err := json.Marshal(s.state())
	if err != nil {
		return nil, fmt.Errorf("dispensarytest: Snapshot: %w", err)
	}
	return append(line, '\n'), nil
}

// Reset returns the platform to its initial state: the world of its seed and size, no tokens,
// no deliveries, and the webhook endpoint of [WithWebhook] or none. With [WithSnapshot] it
// restores all of that from the snapshot. Reset restores the behaviors of the options, removes
// all faults, signs out all browsers and empties the journal. It keeps URLs, credentials and
// the time. Use Reset between the tests of another language on a standalone platform. In Go, a
// new platform for each test is as fast.
//
// A webhook receiver of this platform must not call Reset, because it waits for the running
// delivery.
func (s *Server) Reset() {
	// While the clock is paused, no delivery runs, and no earlier one starts afterwards.
	defer s.clock.Pause()()
	s.clock.Drop(s.sender)

	s.store.Lock()
	defer s.store.Unlock()
	s.ClearFaults()
	s.rules.limit = nil // the fault was cleared
	s.rules.put(s.set.rules, &s.faults)
	s.begin(s.set.webhook)
	s.tokens.EndSessions()
	s.Journal.Reset()
}
