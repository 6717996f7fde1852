package events_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// bench is a fake platform with a frozen clock, and its events for the first practitioner.
type bench struct {
	platform *dispensarytest.Server
	events.Service
	clock *dispensarytest.Clock
}

// begins is a time of day several hours before midnight.
var begins = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func start(t *testing.T) *bench {
	t.Helper()
	clock := dispensarytest.FrozenClock(begins)
	platform := dispensarytest.New(t, dispensarytest.WithClock(clock))
	return &bench{platform: platform, Service: platform.Client(model.User{}).Events, clock: clock}
}

// happen performs actions that create events of every group, and returns the events.
func (b *bench) happen(t *testing.T) []model.Event {
	t.Helper()
	p := b.platform
	patient, created, err := p.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)
	_, updated, err := p.Patients.Update(patient.ID, model.PatientUpdate{FirstName: new("Changed")})
	require.NoError(t, err)
	plan, planned, err := p.Plans.Create(patient.ID, model.PlanCreate{})
	require.NoError(t, err)
	_, ordered, err := p.Orders.Place(patient.ID, model.OrderCreate{PlanIDs: []string{plan.ID}})
	require.NoError(t, err)
	_, canceled, err := p.Plans.Cancel(plan.ID)
	require.NoError(t, err)
	_, product, err := p.Products.Create(model.ProductCreate{})
	require.NoError(t, err)
	revoked, err := p.Clinics.RevokeKey(b.platform.ClinicKey())
	require.NoError(t, err)
	activated, err := p.Clinics.ActivateKey(b.platform.ClinicKey())
	require.NoError(t, err)
	return []model.Event{created, updated, planned, ordered, canceled, product, revoked, activated}
}

// The data of every event type decodes to the platform's record.
func TestGetReturnsDecodableData(t *testing.T) {
	t.Parallel()
	b := start(t)
	p := b.platform
	made := b.happen(t)
	get := func(i int) events.Event {
		e, err := b.Get(t.Context(), made[i].ID)
		require.NoError(t, err)
		return *e
	}
	patient, err := events.As[clinic.Patient](get(1))
	require.NoError(t, err)
	held, known := p.Patients.Get(patient.Object.ID)
	require.True(t, known)
	assert.Equal(t, held.FirstName, patient.Object.FirstName)
	assert.Equal(t, held.Email, patient.Object.Email)

	plan, err := events.As[treatmentplans.Plan](get(2))
	require.NoError(t, err)
	assert.Equal(t, treatmentplans.StateActive, plan.Object.State, "the plan at the time of the event")
	assert.Equal(t, held.ID, plan.Object.Patient.ID)

	order, err := events.As[clinic.Order](get(3))
	require.NoError(t, err)
	heldOrder, known := p.Orders.Get(order.Object.ID)
	require.True(t, known)
	assert.Equal(t, heldOrder.Number, order.Object.OrderNumber)
	assert.Len(t, order.Object.LineItems, len(heldOrder.Lines))

	product, err := events.As[catalog.Product](get(5))
	require.NoError(t, err)
	_, known = p.Products.Get(product.Object.ID)
	assert.True(t, known)
	_, err = events.As[events.ClinicKey](get(7))
	require.NoError(t, err)
}

// activate activates the integration, so that the platform sends events.
func (b *bench) activate(t *testing.T) {
	t.Helper()
	_, err := b.platform.Clinics.ActivateKey(b.platform.ClinicKey())
	require.NoError(t, err)
}

// deliver registers a webhook endpoint that fails the given number of requests, places an
// order and runs the due deliveries.
func (b *bench) deliver(t *testing.T, failures int32) model.Event {
	t.Helper()
	var requests atomic.Int32
	require.NoError(t, b.platform.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) <= failures {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"challenge":%q}`, b.platform.Application().ChallengeToken)
	})))
	_, event, err := b.platform.Orders.Place(b.platform.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(t, err)
	b.clock.Advance(0)
	return event
}

func TestDeliveriesListAttempts(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.activate(t)
	event := b.deliver(t, 1)
	page, err := b.Deliveries.List(events.DeliveryListOptions{}).Page(t.Context())
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	failed := page.Items[0]
	held := b.platform.Webhooks.Deliveries()[0]
	assert.Equal(t, held.ID, failed.ID)
	assert.EqualValues(t, 1, failed.AttemptNumber)
	assert.True(t, failed.AttemptedAt.Equal(begins))
	assert.True(t, failed.PreviousAttemptAt.IsZero())
	assert.True(t, failed.NextAttemptAt.Equal(begins.Add(time.Minute)))
	assert.False(t, failed.SuccessfullyDelivered)
	assert.EqualValues(t, http.StatusServiceUnavailable, failed.ResponseStatus)
	assert.Equal(t, "not now\n", failed.ResponseBody)
	assert.Contains(t, failed.ResponseHeader, "Content-Type: text/plain")
	assert.NotEmpty(t, failed.ResponseIPAddress)
	assert.Equal(t, held.Attempts[0].Err, failed.ResponseErrors)

	sent, err := failed.Event()
	require.NoError(t, err)
	assert.Equal(t, event.ID, sent.ID)
	assert.Equal(t, events.TypeOrderPlaced, sent.Type)
	assert.Equal(t, held.IntegrationID, sent.IntegrationID)
	assert.JSONEq(t, string(event.Data), string(sent.Data))

	b.clock.Advance(time.Minute)
	page, err = b.Deliveries.List(events.DeliveryListOptions{}).Page(t.Context())
	require.NoError(t, err)
	delivered := page.Items[0]
	assert.True(t, delivered.SuccessfullyDelivered)
	assert.EqualValues(t, 2, delivered.AttemptNumber)
	assert.True(t, delivered.PreviousAttemptAt.Equal(begins))
	assert.True(t, delivered.NextAttemptAt.IsZero())
	assert.Empty(t, delivered.ResponseErrors)
	assert.Equal(t, page.Items, resourcetest.Collect(t, b.Deliveries.List(events.DeliveryListOptions{}).All(t.Context())))
	b.platform.Journal.CheckNoUnexpected(t)
}

// A delivery without a valid event returns an error without its data.
func TestDeliveryWithoutEventFails(t *testing.T) {
	t.Parallel()
	_, err := events.Delivery{}.Event()
	require.ErrorIs(t, err, events.ErrMalformed)
	_, err = events.Delivery{EventPayload: []byte(`{"event":{"data":"` + marked + `"}}`)}.Event()
	require.ErrorIs(t, err, events.ErrNoEvent)
	assert.NotContains(t, err.Error(), marked)
}
