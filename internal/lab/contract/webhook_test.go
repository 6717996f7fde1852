package contract_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// delivery is a webhook request to the endpoint.
type delivery struct {
	request *http.Request
	body    []byte
}

// endpoint is a webhook endpoint that acknowledges and stores every request.
type endpoint struct {
	*httptest.Server
	mu        sync.Mutex
	challenge string
	got       []delivery
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a truncated body is reported as malformed
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = append(e.got, delivery{r, body})
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, e.acknowledgement())
}

func (e *endpoint) acknowledgement() string {
	return `{"challenge":` + strconv.Quote(e.challenge) + `}`
}

// last returns the latest delivery.
func (e *endpoint) last() delivery {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got[len(e.got)-1]
}

// listen registers an endpoint.
func (s *fixture) listen() *endpoint {
	s.t.Helper()
	e := &endpoint{challenge: s.Platform.Application().ChallengeToken}
	e.Server = httptest.NewServer(e)
	s.t.Cleanup(e.Close)
	require.NoError(s.t, s.Platform.Webhooks.Register(e.URL))
	return e
}

// deliver waits until an event has arrived.
func (s *fixture) deliver(eventID string) {
	s.t.Helper()
	require.NoError(s.t, s.Platform.Webhooks.WaitDelivered(s.t.Context(), eventID))
}

// happening creates an event of one type.
type happening func(s *fixture, p *dispensarytest.Server) (model.Event, error)

// happenings contains all ways to create an event, by event type.
var happenings = map[string][]happening{
	model.EventClinicKeyActivated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		if _, err := p.Clinics.RevokeKey(s.Platform.ClinicKey()); err != nil {
			return model.Event{}, err
		}
		return p.Clinics.ActivateKey(s.Platform.ClinicKey())
	}},
	model.EventClinicKeyRevoked: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		return p.Clinics.RevokeKey(s.Platform.ClinicKey())
	}},
	model.EventOrderPlaced: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Orders.Place(s.Patient, model.OrderCreate{PlanIDs: []string{s.Plan}})
		return event, err
	}, func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Orders.Place(s.Patient, model.OrderCreate{})
		return event, err
	}},
	model.EventPatientCreated: {func(_ *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Patients.Create(model.PatientCreate{})
		return event, err
	}},
	model.EventPatientUpdated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Patients.Update(s.Patient, model.PatientUpdate{MobileNumber: new(""), TextNotification: new(true)})
		return event, err
	}},
	model.EventProductCreated: {func(_ *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Products.Create(model.ProductCreate{})
		return event, err
	}},
	model.EventProductDescriptionUpdated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Products.Describe(s.Product, "<p>Better than ever.</p>")
		return event, err
	}},
	model.EventProductUpdated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Products.Update(s.Product, model.ProductUpdate{Name: new("Renamed")})
		return event, err
	}, func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Products.UpdateVariant(s.Variant, model.VariantUpdate{Status: new("vendor backorder")})
		return event, err
	}},
	model.EventTreatmentPlanCreated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Plans.Create(s.Patient, model.PlanCreate{PersonalMessage: "Rest."})
		return event, err
	}, func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Plans.Activate(s.Draft)
		return event, err
	}},
	model.EventTreatmentPlanRecommendationUpdated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Plans.UpdateRecommendation(s.Draft, model.Recommendation{
			VariantID: s.Variant, UnitsToPurchase: 3, Dosage: &model.Dosage{Amount: "1/2", Format: "tablet"},
		})
		return event, err
	}},
	model.EventTreatmentPlanUpdated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Plans.Update(s.Plan, model.PlanUpdate{PersonalMessage: new("")})
		return event, err
	}, func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Plans.Cancel(s.Plan)
		return event, err
	}},
}

// The webhook, the single event and the delivery of each event type follow the contract.
func TestEventTypesFollowContract(t *testing.T) {
	t.Parallel()
	for _, eventType := range model.EventTypes() {
		for i, happens := range happenings[eventType] {
			t.Run(eventType+" "+strconv.Itoa(i+1), func(t *testing.T) {
				t.Parallel()
				s := start(t)
				receiver := s.listen()
				event, err := happens(s, s.Platform)
				require.NoError(t, err)
				require.Equal(t, eventType, event.Type)
				s.deliver(event.ID)
				s.checkDelivery(eventType, receiver)
				s.accepted("events.get", s.send("events.get", request{path: []string{event.ID}, token: s.token}))
				s.accepted("webhook_deliveries.list", s.send("webhook_deliveries.list", request{query: query("event_id", event.ID), token: s.token}))
			})
		}
	}
}

func (s *fixture) checkDelivery(eventType string, receiver *endpoint) {
	s.t.Helper()
	got := receiver.last()
	assert.NotEmpty(s.t, got.body)
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}}
	assert.Empty(s.t, s.check.CheckWebhook(eventType, got.request, got.body, response, []byte(receiver.acknowledgement())))
}

func TestWebhooksCoverEventTypes(t *testing.T) {
	t.Parallel()
	s := start(t)
	assert.Equal(t, model.EventTypes(), s.check.Webhooks())
	assert.Len(t, s.check.Webhooks(), 11)
	for _, eventType := range s.check.Webhooks() {
		assert.NotEmpty(t, happenings[eventType], "no test creates %s", eventType)
	}
}

// The list of deliveries contains failed deliveries with and without a response.
func TestFailedDeliveriesFollowContract(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]http.HandlerFunc{
		"rejected": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not now", http.StatusServiceUnavailable) },
		"dropped":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := dispensarytest.FrozenClock(time.Now())
			s := start(t, dispensarytest.WithClock(clock))
			server := httptest.NewServer(response)
			t.Cleanup(server.Close)
			require.NoError(t, s.Platform.Webhooks.Register(server.URL))
			id := patientEvent(s)
			clock.Advance(0)
			s.accepted("webhook_deliveries.list", s.send("webhook_deliveries.list", request{
				query: query("event_id", id, "successfully_delivered", "false"), token: s.token,
			}))
		})
	}
}
