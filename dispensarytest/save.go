package dispensarytest

import (
	"encoding/json"
	"fmt"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
)

// state returns the current state of the platform.
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
	s.limit = nil // the fault was cleared
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
