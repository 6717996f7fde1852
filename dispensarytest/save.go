package dispensarytest

import (
	"encoding/json"
	"fmt"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
)

// state returns the platform as it is now.
func (s *Server) state() *state {
	s.store.Lock()
	defer s.store.Unlock()
	now := &state{
		Format: snapshotFormat, Version: snapshotVersion, Seed: s.set.seed, Environment: s.set.environment,
		Behaviors: s.rules.Get().Variants(), World: s.store.World.Clone(), Tokens: s.tokens.State(), Webhooks: s.sender.State(),
	}
	if s.clock.Frozen() {
		now.Frozen = s.clock.Now()
	} else {
		now.Offset = s.clock.Offset()
	}
	return now
}

// Snapshot returns the platform as it is now, as one line of JSON for [WithSnapshot]: its
// world, consents and codes, webhook endpoint, deliveries and behaviors. It contains the
// made-up patients and secrets of the platform. Faults, the journal and open authorize pages
// are not part of it. The line stays the same as long as only the time changes.
func (s *Server) Snapshot() ([]byte, error) {
	line, err := json.Marshal(s.state())
	if err != nil {
		return nil, fmt.Errorf("dispensarytest: Snapshot: %w", err)
	}
	return append(line, '\n'), nil
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
		consents, endpoint = s.set.snapshot.Tokens, s.set.snapshot.Webhooks
	}
	if s.set.webhook != nil {
		endpoint.Endpoint = webhooks.NewEndpoint(s.set.webhook.URL, s.set.webhook.Types)
	}
	s.tokens.Restore(consents)
	s.tokens.EndSessions()
	s.sender.Restore(endpoint)
	s.Journal.Reset()
}
