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
	snapshotVersion = 1
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
	_, err := s.reads()
	return errors.Join(s.World.Check(), err, s.Tokens.Check(), s.Webhooks.Check(), environment)
}

func (s *state) reads() (rules.Set, error) {
	reads := rules.Defaults()
	for _, v := range s.Behaviors {
		if err := reads.Choose(v); err != nil {
			return reads, err
		}
	}
	return reads, nil
}

// clock returns the clock of a platform that starts from the snapshot.
func (s *state) clock() *clock.Clock {
	if s.Frozen.IsZero() {
		return clock.LiveAhead(s.Offset)
	}
	return clock.Frozen(s.Frozen)
}
