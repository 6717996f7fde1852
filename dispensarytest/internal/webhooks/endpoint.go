package webhooks

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// CheckEndpoint rejects an invalid URL or unknown event types.
func CheckEndpoint(address string, types []string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("dispensarytest: the webhook endpoint is not a URL") // the text may contain a secret
	case u.User != nil:
		return fmt.Errorf("dispensarytest: the webhook endpoint at %s must not contain a user: the signature identifies the caller", u.Host)
	case u.Host == "" || u.Scheme == "":
		return fmt.Errorf("dispensarytest: %q is not absolute", address)
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("dispensarytest: %q must begin with https://, or on loopback with http://", address)
	case u.Fragment != "":
		return fmt.Errorf("dispensarytest: %q has a fragment", address)
	case u.Scheme == "http" && !memhttp.IsLoopback(u.Hostname()):
		return fmt.Errorf("dispensarytest: %q is plain HTTP and not on loopback", address)
	}
	for _, t := range types {
		if !slices.Contains(model.EventTypes(), t) {
			return errors.New("dispensarytest: " + closestmatch.Unknown("event type", t, model.EventTypes()))
		}
	}
	return nil
}

// NewEndpoint returns an endpoint subscribed to types, or to all types if there are none.
func NewEndpoint(address string, types []string) *model.Endpoint {
	if len(types) == 0 {
		types = model.EventTypes()
	}
	return &model.Endpoint{URL: address, Types: slices.Clone(types)}
}

// Register implements dispensarytest.Webhooks.
func (s *Sender) Register(address string, types ...string) error {
	if err := CheckEndpoint(address, types); err != nil {
		return err
	}
	if s.Behaviors.Get().Probe != rules.ProbeNever {
		if a := s.post(address, nil, s.probeSignature()); a.Err != "" {
			return fmt.Errorf("dispensarytest: %s", a.Err)
		}
	}
	defer s.Changes.Notify()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint = NewEndpoint(address, types)
	return nil
}

// receiverOrigin is the origin of handlers from RegisterHandler.
const receiverOrigin = "https://receiver.dispensary.test"

// RegisterHandler implements dispensarytest.Webhooks.
func (s *Sender) RegisterHandler(handler http.Handler, types ...string) error {
	if err := s.Network.Host(receiverOrigin, handler); err != nil {
		return fmt.Errorf("dispensarytest: RegisterHandler: %w", err)
	}
	return s.Register(receiverOrigin+"/webhooks", types...)
}

// Endpoint implements dispensarytest.Webhooks.
func (s *Sender) Endpoint() (model.Endpoint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endpoint == nil {
		return model.Endpoint{}, false
	}
	ep := *s.endpoint
	ep.Types = slices.Clone(ep.Types)
	return ep, true
}

// Enable implements dispensarytest.Webhooks.
func (s *Sender) Enable() error {
	defer s.Changes.Notify()
	s.mu.Lock()
	defer s.mu.Unlock()
	ep := s.endpoint
	if ep == nil {
		return errors.New("dispensarytest: Webhooks.Enable: no webhook endpoint is registered")
	}
	ep.Disabled, ep.Reason, ep.FailingSince = false, "", time.Time{}
	if s.Behaviors.Get().Resume {
		s.resume()
	}
	return nil
}

// resume schedules the deliveries that stopped with the endpoint and have attempts left. The
// caller holds mu.
func (s *Sender) resume() {
	stopped := table.Where(s.deliveries, func(d *Entry) bool {
		return d.Stopped && !d.Delivered && !s.closed && len(d.Attempts) <= len(s.Behaviors.Get().RetrySchedule)
	})
	for _, d := range stopped {
		s.schedule(s.change(d.ID, func(d *Entry) { d.Stopped, d.NextAttemptAt = false, s.Clock.Now() }))
	}
	s.announce()
}
