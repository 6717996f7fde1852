package events_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

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
