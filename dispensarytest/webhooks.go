package dispensarytest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// RegisterWebhook registers the endpoint, in place of an earlier one, and
// subscribes it to event types: to all when none is named. Plain HTTP is
// accepted on loopback only. With a probe mode other than [ProbeOff] the
// endpoint has to answer an empty request with its challenge first.
func (s *Server) RegisterWebhook(address string, types ...string) error {
	if err := webhooks.CheckEndpoint(address, types); err != nil {
		return err
	}
	if len(types) == 0 {
		types = model.EventTypes()
	}
	if s.behaviors.Get().Probe != behavior.ProbeNever {
		if a := s.sender.Post(address, nil, s.sender.ProbeSignature()); a.Err != "" {
			return fmt.Errorf("dispensarytest: the webhook endpoint was refused: %s", a.Err)
		}
	}
	defer s.changes.Notify()
	s.sender.Mu.Lock()
	defer s.sender.Mu.Unlock()
	s.sender.Endpoint = &model.Endpoint{URL: address, Types: slices.Clone(types)}
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
// the behavior resume-after-enable.
func (s *Server) EnableWebhook() error {
	defer s.changes.Notify()
	s.sender.Mu.Lock()
	defer s.sender.Mu.Unlock()
	ep := s.sender.Endpoint
	if ep == nil {
		return errors.New("dispensarytest: EnableWebhook: no webhook endpoint is registered")
	}
	ep.Disabled, ep.Reason, ep.FailingSince = false, "", time.Time{}
	if s.behaviors.Get().Resume {
		s.sender.Resume()
	}
	return nil
}

// Webhook returns the registered endpoint, and false when there is none.
func (s *Server) Webhook() (model.Endpoint, bool) {
	s.sender.Mu.Lock()
	defer s.sender.Mu.Unlock()
	if s.sender.Endpoint == nil {
		return model.Endpoint{}, false
	}
	ep := *s.sender.Endpoint
	ep.Types = slices.Clone(ep.Types)
	return ep, true
}

// Deliveries returns the deliveries of the events that are kept, see
// [WithEventLimit], in the order of their events.
func (s *Server) Deliveries() []model.Delivery {
	return s.sender.All()
}

// Skips returns the events that were not sent, sorted by event id.
func (s *Server) Skips() []model.Skip {
	return s.sender.Skipped()
}

type endpointSettings struct {
	url   string
	types []string
}

// fresh is the endpoint as it is registered.
func (e *endpointSettings) fresh() *model.Endpoint {
	if len(e.types) == 0 {
		return &model.Endpoint{URL: e.url, Types: model.EventTypes()}
	}
	return &model.Endpoint{URL: e.url, Types: e.types}
}
