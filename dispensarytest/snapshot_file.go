package dispensarytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Every snapshot begins with its format and version. The version counts up with a
// change of the file, or of the worlds that are generated: a file holds what has
// happened since.
const (
	snapshotFormat  = "dispensary test platform"
	snapshotVersion = 5
)

// Why a snapshot is not loaded.
var (
	// ErrNoSnapshot: what was read is empty, or something else.
	ErrNoSnapshot = errors.New("not a snapshot")

	// ErrSnapshotVersion: another version of this package wrote it.
	ErrSnapshotVersion = errors.New("a snapshot of another version")

	// ErrSnapshotDamaged: it is a snapshot, but parts are missing or wrong.
	ErrSnapshotDamaged = errors.New("a damaged snapshot")
)

// snapshotFile is a snapshot as it is saved: JSON, to be read by people as well. What
// follows from seed and size is left out.
type snapshotFile struct {
	Format     string
	Version    int
	Seed       uint64
	Region     model.Region
	Compatible uint64 `json:",omitempty"`
	Size       model.WorldSize
	At         time.Time
	Frozen     bool
	Offset     time.Duration
	Readings   map[string]string
	World      store.WorldFile
	Tokens     tokens.TokensFile
	Webhooks   webhooks.WebhooksFile
}

// Save writes the snapshot as one line of JSON: seed and size, and what is not as they
// make it. It holds the platform's made-up patients and secrets.
func (s *Snapshot) Save(to io.Writer) error {
	world := worldOf(s)
	f := snapshotFile{
		Format: snapshotFormat, Version: snapshotVersion, Seed: s.seed, Region: s.region, Compatible: s.compatible, Size: world.Size,
		At: s.at, Frozen: s.frozen, Offset: s.offset, Readings: s.reads.Chosen,
		World: world.File(), Tokens: s.tokens.File(), Webhooks: world.sender.File(world.World),
	}
	if err := json.NewEncoder(to).Encode(f); err != nil {
		return fmt.Errorf("dispensarytest: saving a snapshot: %w", err)
	}
	return nil
}

// Same reports that nothing has changed between two snapshots of one platform, but
// for the passing of time. It takes about as long as taking one.
func (s *Snapshot) Same(other *Snapshot) bool {
	now, then := worldOf(s), worldOf(other)
	return s.frozen == other.frozen && (!s.frozen || s.at.Equal(other.at)) && s.offset == other.offset &&
		maps.Equal(s.reads.Chosen, other.reads.Chosen) && now.World.Same(then.World) && now.sender.Same(&then.sender) &&
		reflect.DeepEqual(s.tokens.File(), other.tokens.File())
}

// LoadSnapshot reads what [Snapshot.Save] wrote. It takes as long as it takes to make
// a world of that seed and size. Errors are [ErrNoSnapshot], [ErrSnapshotVersion] and
// [ErrSnapshotDamaged].
func LoadSnapshot(from io.Reader) (*Snapshot, error) {
	content, err := io.ReadAll(from)
	if err == nil {
		var snap *Snapshot
		if snap, err = parseSnapshot(content); err == nil {
			return snap, nil
		}
	}
	return nil, fmt.Errorf("dispensarytest: loading a snapshot: %w", err)
}

func parseSnapshot(content []byte) (*Snapshot, error) {
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
	case head.Version > snapshotVersion:
		return nil, fmt.Errorf("%w: it has version %d, of a newer program; this one reads version %d", ErrSnapshotVersion, head.Version, snapshotVersion)
	case head.Version < snapshotVersion:
		return nil, fmt.Errorf("%w: it has version %d, of an older program; this one reads version %d", ErrSnapshotVersion, head.Version, snapshotVersion)
	}
	var file snapshotFile
	err := json.Unmarshal(content, &file)
	var snap *Snapshot
	if err == nil {
		snap, err = file.snapshot()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshotDamaged, err)
	}
	return snap, nil
}

func (f snapshotFile) snapshot() (*Snapshot, error) {
	set := defaults()
	for _, option := range []Option{WithRegion(f.Region), WithWorldSize(f.Size)} {
		if err := option(&set); err != nil {
			return nil, err
		}
	}
	set.seed, set.compatible = f.Seed, f.Compatible
	snap := &Snapshot{
		seed: f.Seed, region: f.Region, compatible: f.Compatible, at: f.At.UTC(), frozen: f.Frozen,
		offset: f.Offset, reads: behavior.Defaults(),
	}
	for point, variant := range f.Readings {
		if err := snap.reads.Choose(point, variant); err != nil {
			return nil, err
		}
	}
	if f.World.Numbers == nil {
		return nil, errors.New("it has no world")
	}
	world := newWorld(set)
	world.Load(f.World)
	var err error
	snap.tokens, err = f.Tokens.State()
	sender, wrong := f.Webhooks.State(store.Sealed(world))
	snap.world = &snapshotWorld{world, sender}
	return snap, errors.Join(err, wrong)
}

// Save writes the platform as it is now; see [Snapshot.Save].
func (s *Server) Save(to io.Writer) error { return s.Snapshot().Save(to) }

// Load takes the platform back to what [Server.Save] wrote; see [Server.Restore].
func (s *Server) Load(from io.Reader) error {
	snap, err := LoadSnapshot(from)
	if err != nil {
		return err
	}
	if snap.seed != s.set.seed || snap.region != s.set.region {
		return errors.New("dispensarytest: Load: the snapshot is of another seed or region, start it with WithSnapshot")
	}
	s.Restore(snap)
	return nil
}
