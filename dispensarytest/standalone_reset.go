package dispensarytest

// Reset takes the platform back to the world of its seed and size: no tokens, no
// deliveries, no faults, an empty journal, the readings of its options, and the
// webhook endpoint of [WithWebhook] or none. Addresses and credentials stay, and
// so does the time. A stand-alone platform is reset between the tests of another
// language; in Go, a new platform for each test is as quick.
//
// It must not be called from inside a webhook receiver of this platform: it waits
// for the delivery under way.
func (s *Server) Reset() {
	// Whoever holds the clock's baton knows that no delivery is under way, and
	// that none of the old ones starts any more.
	s.clock.baton <- struct{}{}
	defer func() { <-s.clock.baton }()
	s.clock.drop(s.sender)

	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := s.set
	fresh.snapshot = nil
	s.world = fresh.newWorld()
	s.addIntegrations()
	s.tokens.restore(tokenState{scopes: fresh.scopes, codes: make(map[string]authCode)})
	s.sender.restore(senderState{endpoint: fresh.webhook.fresh()})
	s.ClearFaults()
	s.limit = nil // it was one of the faults
	s.read(fresh.readings)
	s.journal.Reset()
}

// fresh is the endpoint as it is registered, nil for none.
func (e *endpointSettings) fresh() *Endpoint {
	if e == nil {
		return nil
	}
	if len(e.types) == 0 {
		return &Endpoint{URL: e.url, Types: EventTypes()}
	}
	return &Endpoint{URL: e.url, Types: e.types}
}

// Activity is a number that grows with every request to the platform and with
// every attempt to deliver a webhook. While it stays the same, nothing has changed
// but through Go. Who writes the platform to a file looks at it to see whether
// there is anything to write.
func (s *Server) Activity() uint64 {
	s.sender.mu.Lock()
	defer s.sender.mu.Unlock()
	n := s.requestIDs.n.Load()
	for _, d := range s.sender.all {
		n += uint64(len(d.Attempts))
	}
	return n
}
