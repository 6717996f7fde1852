package dispensarytest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Endpoint is the integrator's registered webhook: one per platform.
// API section: "Webhooks".
type Endpoint struct {
	URL          string
	Types        []string // event types it is subscribed to
	Disabled     bool
	Reason       string    // why it is disabled
	FailingSince time.Time // zero unless the latest attempts failed
}

// RegisterWebhook registers the endpoint, in place of an earlier one, and
// subscribes it to event types: to all when none is named. Plain HTTP is
// accepted on loopback only. With a probe mode other than [ProbeOff] the
// endpoint has to answer an empty request with its challenge first.
func (s *Server) RegisterWebhook(address string, types ...string) error {
	if err := checkEndpoint(address, types); err != nil {
		return err
	}
	if len(types) == 0 {
		types = EventTypes()
	}
	if s.reads().probe != ProbeOff {
		if a := s.sender.post(address, nil, s.sender.probeSignature()); a.Err != "" {
			return fmt.Errorf("dispensarytest: the webhook endpoint was refused: %s", a.Err)
		}
	}
	defer s.changes.Notify()
	s.sender.mu.Lock()
	defer s.sender.mu.Unlock()
	s.sender.endpoint = &Endpoint{URL: address, Types: slices.Clone(types)}
	return nil
}

// RegisterWebhookHandler registers a handler as the webhook endpoint: events
// reach it without a socket, signed and answered as any other. It is
// [Server.Host] and [Server.RegisterWebhook] in one.
func (s *Server) RegisterWebhookHandler(handler http.Handler, types ...string) error {
	if err := s.Host(receiverOrigin, handler); err != nil {
		return err
	}
	return s.RegisterWebhook(receiverOrigin+"/webhooks", types...)
}

// EnableWebhook takes a disabled endpoint back into service, as the developer
// dashboard does. Deliveries that stopped meanwhile are not resumed, but see
// [SilenceResumeAfterEnable].
func (s *Server) EnableWebhook() error {
	defer s.changes.Notify()
	s.sender.mu.Lock()
	defer s.sender.mu.Unlock()
	ep := s.sender.endpoint
	if ep == nil {
		return errors.New("dispensarytest: EnableWebhook: no webhook endpoint is registered")
	}
	ep.Disabled, ep.Reason, ep.FailingSince = false, "", time.Time{}
	if s.reads().resume {
		s.sender.resume()
	}
	return nil
}

// Webhook returns the registered endpoint, and false when there is none.
func (s *Server) Webhook() (Endpoint, bool) {
	s.sender.mu.Lock()
	defer s.sender.mu.Unlock()
	if s.sender.endpoint == nil {
		return Endpoint{}, false
	}
	ep := *s.sender.endpoint
	ep.Types = slices.Clone(ep.Types)
	return ep, true
}

func checkEndpoint(address string, types []string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("dispensarytest: webhook address: it cannot be read") // it may hold a secret
	case u.User != nil:
		return fmt.Errorf("dispensarytest: webhook address at %s: it names a user; the signature tells who calls", u.Host)
	case u.Host == "" || u.Scheme == "":
		return fmt.Errorf("dispensarytest: webhook address %q is not absolute", address)
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("dispensarytest: webhook address %q is not one of HTTPS", address)
	case u.Fragment != "":
		return fmt.Errorf("dispensarytest: webhook address %q has a fragment, which is not sent", address)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return fmt.Errorf("dispensarytest: webhook address %q: plain HTTP only on loopback", address)
	}
	for _, t := range types {
		if !slices.Contains(EventTypes(), t) {
			return errors.New("dispensarytest: " + unknownName("event type", t, EventTypes()))
		}
	}
	return nil
}
