package dispensarytest

import (
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

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
