package dispensarytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
)

// snapshot returns the platform as it is now.
func (s *Server) snapshot() *Snapshot {
	s.store.Lock()
	defer s.store.Unlock()
	now := &state{
		Format: snapshotFormat, Version: snapshotVersion, Seed: s.set.seed, Region: s.set.region,
		Behaviors: s.rules.Get().Variants(), World: s.store.World.Clone(), Tokens: s.tokens.State(), Webhooks: s.sender.State(),
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
	s.putRules(s.set.rules)
	s.store.World = s.set.world()
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
