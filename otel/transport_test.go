package dispensaryotel_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	dispensaryotel "github.com/dispensary-go/dispensary/otel"
)

// Propagate sends the platform the trace, and never the baggage.
func TestPropagate(t *testing.T) {
	t.Parallel()
	platform, r := dispensarytest.New(t), record(t)
	var sent http.Header
	base := through(platform.HTTPClient().Transport, func(r *http.Request) { sent = r.Header })
	client := platform.Client(model.User{}, r.Client(),
		dispensary.WithHTTPClient(&http.Client{Transport: dispensaryotel.Propagate(base.Transport)}))
	member, err := baggage.NewMember("patient", "Jane")
	require.NoError(t, err)
	carried, err := baggage.New(member)
	require.NoError(t, err)
	_, err = client.Clinic.Get(baggage.ContextWithBaggage(t.Context(), carried))
	require.NoError(t, err)
	attempt := r.one(t, "GET /clinic").SpanContext
	assert.Equal(t, "00-"+attempt.TraceID().String()+"-"+attempt.SpanID().String()+"-01", sent.Get("Traceparent"))
	assert.Empty(t, sent.Get("Baggage"))
}

// Without a span there is nothing to send, and the request is left as it was.
func TestPropagateWithoutASpan(t *testing.T) {
	t.Parallel()
	given, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/", nil)
	require.NoError(t, err)
	var sent *http.Request
	transport := dispensaryotel.Propagate(roundTripper(func(r *http.Request) (*http.Response, error) { sent = r; return &http.Response{}, nil }))
	_, err = transport.RoundTrip(given) //nolint:bodyclose // there is none
	require.NoError(t, err)
	assert.Empty(t, sent.Header)
	assert.NotSame(t, given, sent)
	_, err = dispensaryotel.Propagate(nil).RoundTrip(given) //nolint:bodyclose // no server listens
	assert.Error(t, err)
}
