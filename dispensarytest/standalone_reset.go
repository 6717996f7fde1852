package dispensarytest

// Reset takes the platform back to how it started: to the world of its seed and
// size, with no tokens, no deliveries and the webhook endpoint of [WithWebhook] or
// none; or, with [WithSnapshot], to what the snapshot has of all that. The readings
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

	s.mu.Lock()
	defer s.mu.Unlock()
	s.ClearFaults()
	s.limit = nil // it was one of the faults
	s.read(s.set.readings)
	s.world = s.set.newWorld()
	s.addIntegrations()
	tokens, webhooks := tokenState{scopes: s.set.scopes, codes: make(map[string]authCode)}, senderState{}
	if s.set.snapshot != nil {
		tokens, webhooks = s.set.snapshot.tokens, s.set.snapshot.sender
	}
	if s.set.webhook != nil {
		webhooks.endpoint = s.set.webhook.fresh()
	}
	s.tokens.restore(tokens)
	s.tokens.endSessions()
	s.sender.restore(webhooks)
	s.journal.Reset()
}

// fresh is the endpoint as it is registered.
func (e *endpointSettings) fresh() *Endpoint {
	if len(e.types) == 0 {
		return &Endpoint{URL: e.url, Types: EventTypes()}
	}
	return &Endpoint{URL: e.url, Types: e.types}
}
