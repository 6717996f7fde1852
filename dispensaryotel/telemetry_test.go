package dispensaryotel_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/dispensary-go/dispensary/dispensaryotel"
)

// rejecting is a meter provider whose meters create no counters.
type rejecting struct{ noop.MeterProvider }

type rejectingMeter struct{ noop.Meter }

func (rejecting) Meter(string, ...metric.MeterOption) metric.Meter { return rejectingMeter{} }

var errRejected = errors.New("refused")

func (rejectingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, errRejected
}

func TestNewReturnsErrorOfMeter(t *testing.T) {
	t.Parallel()
	_, err := dispensaryotel.New(dispensaryotel.Config{MeterProvider: rejecting{}})
	require.ErrorIs(t, err, errRejected)
	assert.ErrorContains(t, err, "dispensaryotel: ")
}

// without is a sampler that drops spans with one name, under any parent.
type without string

func (w without) ShouldSample(p trace.SamplingParameters) trace.SamplingResult {
	if p.Name == string(w) {
		return trace.SamplingResult{Decision: trace.Drop}
	}
	return trace.SamplingResult{Decision: trace.RecordAndSample}
}

func (w without) Description() string { return "without " + string(w) }

// An unrecorded call inside a recorded call must not end the span of the outer call.
func TestDroppedSpanKeepsOuterSpanOpen(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	telemetry, err := dispensaryotel.New(dispensaryotel.Config{
		TracerProvider: trace.NewTracerProvider(trace.WithSyncer(spans), trace.WithSampler(without("oauth.token"))),
		MeterProvider:  noop.NewMeterProvider(),
	})
	require.NoError(t, err)
	c := connectTo(t, &recorded{Telemetry: telemetry, spans: spans}, -time.Minute)
	_, err = c.client.Clinic.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"POST /oauth/token", "oauth.refresh", "GET /clinic", "clinic.get"}, c.names())
	assert.Equal(t, "1", set(c.one(t, "clinic.get"))["dispensary.attempts"])
}
