package dispensaryotel_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/dispensary-go/dispensary/dispensaryotel"
)

// recorded is a Telemetry with its signals in memory.
type recorded struct {
	*dispensaryotel.Telemetry
	tracers *trace.TracerProvider
	spans   *tracetest.InMemoryExporter
	metrics *metric.ManualReader
}

// record returns a Telemetry.
func record(t testing.TB) *recorded {
	t.Helper()
	r := &recorded{spans: tracetest.NewInMemoryExporter(), metrics: metric.NewManualReader()}
	r.tracers = trace.NewTracerProvider(trace.WithSyncer(r.spans))
	var err error
	r.Telemetry, err = dispensaryotel.New(dispensaryotel.Config{
		TracerProvider: r.tracers, MeterProvider: metric.NewMeterProvider(metric.WithReader(r.metrics)),
	})
	require.NoError(t, err)
	return r
}

// ended returns the ended spans with a name, in the order in which they ended.
func (r *recorded) ended(name string) (found []tracetest.SpanStub) {
	for _, span := range r.spans.GetSpans() {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

// one returns the only span with a name.
func (r *recorded) one(t testing.TB, name string) tracetest.SpanStub {
	t.Helper()
	found := r.ended(name)
	require.Len(t, found, 1, "%s among %s", name, r.names())
	return found[0]
}

func (r *recorded) names() (names []string) {
	for _, span := range r.spans.GetSpans() {
		names = append(names, span.Name)
	}
	return names
}

// set returns the attributes of a span as text.
func set(span tracetest.SpanStub) map[string]string { return texts(span.Attributes) }

func texts(attributes []attribute.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// requireChild fails unless child is directly below parent.
func requireChild(t testing.TB, parent, child tracetest.SpanStub) {
	t.Helper()
	require.Equal(t, parent.SpanContext.SpanID(), child.Parent.SpanID(), "%s below %s", child.Name, parent.Name)
	require.Equal(t, parent.SpanContext.TraceID(), child.SpanContext.TraceID())
}

// point is one series of a metric, with its count.
type point struct {
	attributes map[string]string
	count      int
}

// points returns the series of a metric.
func (r *recorded) points(t testing.TB, name string) (all []point) {
	t.Helper()
	for _, m := range r.collect(t) {
		if m.Name == name {
			eachPoint(m, func(attributes attribute.Set, count int) {
				all = append(all, point{texts(attributes.ToSlice()), count})
			})
		}
		if _, durations := m.Data.(metricdata.Histogram[float64]); durations {
			assert.Equal(t, "s", m.Unit)
		}
	}
	return all
}

// eachPoint calls see with the attributes and the count of each series.
func eachPoint(m metricdata.Metrics, see func(attributes attribute.Set, count int)) {
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			see(p.Attributes, int(p.Count))
		}
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			see(p.Attributes, int(p.Value))
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			see(p.Attributes, int(p.Value))
		}
	}
}

func (r *recorded) collect(t testing.TB) (all []metricdata.Metrics) {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, r.metrics.Collect(context.Background(), &data))
	for _, scope := range data.ScopeMetrics {
		assert.Equal(t, "github.com/dispensary-go/dispensary/dispensaryotel", scope.Scope.Name)
		all = append(all, scope.Metrics...)
	}
	return all
}

// dump returns all texts of all signals.
func (r *recorded) dump(t testing.TB) string {
	t.Helper()
	encoded, err := json.Marshal([]any{r.spans.GetSpans(), r.collect(t)})
	require.NoError(t, err)
	return string(encoded)
}

// through is an HTTP client that passes each request to look before base sends it.
func through(base http.RoundTripper, look func(*http.Request)) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		look(r)
		return base.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
