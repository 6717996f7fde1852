package dispensarytest

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
)

// Reset takes the platform back to how it started: to the world of its seed and
// size, with no tokens, no deliveries and the webhook endpoint of [WithWebhook] or
// none; or, with [WithSnapshot], to what the snapshot has of all that. The behaviorSet
// are again those of its options, there are no faults, no browser is signed in, and
// the journal is empty. Addresses and credentials stay, and so does the time. A
// stand-alone platform is reset between the tests of another language; in Go, a new
// platform for each test is as quick.
//
// It must not be called from inside a webhook receiver of this platform: it waits
// for the delivery under way.
func (s *Server) Reset() {
	// Whoever holds the clock's baton knows that no delivery is under way, and
	// that none of the old ones starts any more.
	defer s.clock.Pause()()
	s.clock.Drop(s.sender)

	s.store.Lock()
	defer s.store.Unlock()
	s.ClearFaults()
	s.limit = nil // it was one of the faults
	s.putBehaviors(s.set.behaviors)
	s.store.World = s.set.newWorld()
	s.store.World.AddIntegrations(s.set.integrations, !s.behaviors.Get().Pending)
	tokens, webhooks := tokens.State{Scopes: s.set.scopes, Codes: make(map[string]tokens.AuthCode)}, webhooks.SenderState{}
	if s.set.snapshot != nil {
		tokens, webhooks = s.set.snapshot.tokens, s.set.snapshot.sender
	}
	if s.set.webhook != nil {
		webhooks.Endpoint = s.set.webhook.fresh()
	}
	s.tokens.Restore(tokens)
	s.tokens.EndSessions()
	s.sender.Restore(webhooks)
	s.journal.Reset()
}
