package control

import (
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// snapshots are the moments of a platform that callers gave a name.
type snapshots struct {
	mu    sync.Mutex
	named map[string]*dispensarytest.Snapshot
}

// maxSnapshots bounds how many are kept.
const maxSnapshots = 100

type snapshotNamed struct{ Name string }

func snapshotOperations() []Operation {
	return []Operation{
		list("snapshots.list", "/snapshots", "snapshots", "The names of the snapshots that were taken.",
			"snapshot := fake.Snapshot()",
			func(c *call) []snapshotNamed { return c.api.snapshots.names() }),
		do("snapshots.take", "PUT", "/snapshots/{name}", "Keeps the platform as it is now under a name, in place of an earlier one.",
			"snapshot := fake.Snapshot()",
			func(c *call) (snapshotNamed, error) {
				return snapshotNamed{c.path("name")}, c.api.snapshots.put(c.path("name"), c.fake.Snapshot())
			}),
		download("snapshots.get", "/snapshots/{name}", jsonMedia, "A snapshot as a file, which a platform can be started with: -state of the command.",
			"err := snapshot.Save(file)",
			func(c *call, to io.Writer) error {
				snap, err := c.api.snapshots.get(c.path("name"))
				if err != nil {
					return err
				}
				return snap.Save(to)
			}),
		do("snapshots.restore", "POST", "/snapshots/{name}/restore", "Takes the platform back to a snapshot. Journal, faults and the time stay as they are.",
			"fake.Restore(snapshot)",
			func(c *call) (snapshotNamed, error) {
				snap, err := c.api.snapshots.get(c.path("name"))
				if err == nil {
					c.fake.Restore(snap)
				}
				return snapshotNamed{c.path("name")}, err
			}),
		do("snapshots.remove", "DELETE", "/snapshots/{name}", "Forgets a snapshot.",
			"snapshot = nil",
			func(c *call) (nothing, error) { return nothing{}, c.api.snapshots.remove(c.path("name")) }),
	}
}

func (s *snapshots) names() []snapshotNamed {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []snapshotNamed
	for _, name := range slices.Sorted(maps.Keys(s.named)) {
		names = append(names, snapshotNamed{name})
	}
	return names
}

func (s *snapshots) put(name string, snap *dispensarytest.Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.named == nil {
		s.named = make(map[string]*dispensarytest.Snapshot)
	}
	if len(s.named) >= maxSnapshots && s.named[name] == nil {
		return &problem{status: 409, message: "there are a hundred snapshots; remove one first"}
	}
	s.named[name] = snap
	return nil
}

func (s *snapshots) get(name string) (*dispensarytest.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if snap := s.named[name]; snap != nil {
		return snap, nil
	}
	return nil, &problem{status: 404, message: "no snapshot has the name " + name}
}

func (s *snapshots) remove(name string) error {
	_, err := s.get(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.named, name)
	return err
}
