package signal

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Meter creates instruments and stores their errors.
type Meter struct {
	meter metric.Meter
	err   error
}

// NewMeter returns a meter of the given scope.
func NewMeter(provider metric.MeterProvider, scope, version string) *Meter {
	return &Meter{meter: provider.Meter(scope, metric.WithInstrumentationVersion(version))}
}

// Err returns the errors of all instruments, joined.
func (m *Meter) Err() error { return m.err }

// Bucket bounds of histograms, in seconds.
var (
	// Requests are the bounds that the conventions recommend for HTTP.
	Requests = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

	// Waits range from milliseconds to half a day.
	Waits = []float64{0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 43200}
)

// set returns attributes as the set of a measurement.
func set(attributes []Attribute) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(pairs(attributes)...))
}

// Histogram is a histogram of durations.
type Histogram struct{ histogram metric.Float64Histogram }

// Histogram creates a histogram of durations in seconds.
func (m *Meter) Histogram(name, description string, bounds []float64) Histogram {
	h, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(bounds...))
	m.err = errors.Join(m.err, err)
	return Histogram{h}
}

// Record adds a duration to the histogram.
func (h Histogram) Record(ctx context.Context, d time.Duration, attributes ...Attribute) {
	if h.histogram.Enabled(ctx) {
		h.histogram.Record(ctx, d.Seconds(), set(attributes))
	}
}

// Counter is a counter that only grows.
type Counter struct{ counter metric.Int64Counter }

// Counter creates a counter of a unit, for example "{event}".
func (m *Meter) Counter(name, description, unit string) Counter {
	c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.err = errors.Join(m.err, err)
	return Counter{c}
}

// Count adds 1.
func (c Counter) Count(ctx context.Context, attributes ...Attribute) { c.Add(ctx, 1, attributes...) }

// Add adds n.
func (c Counter) Add(ctx context.Context, n int, attributes ...Attribute) {
	if c.counter.Enabled(ctx) {
		c.counter.Add(ctx, int64(n), set(attributes))
	}
}

// Gauge is a number that is read for each collection of metrics.
type Gauge struct{ gauge metric.Float64ObservableGauge }

// Gauge creates a gauge of a unit, for example "{event}".
func (m *Meter) Gauge(name, description, unit string) Gauge {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.err = errors.Join(m.err, err)
	return Gauge{g}
}

// Display receives the numbers of gauges.
type Display struct{ observer metric.Observer }

// Show sets the number of a gauge.
func (d Display) Show(g Gauge, value float64, attributes ...Attribute) {
	d.observer.ObserveFloat64(g.gauge, value, set(attributes))
}

// Watch calls read for each collection of metrics, until stop is called.
func (m *Meter) Watch(read func(context.Context, Display) error, gauges ...Gauge) (stop func() error, err error) {
	observed := make([]metric.Observable, len(gauges))
	for i, g := range gauges {
		observed[i] = g.gauge
	}
	registration, err := m.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		return read(ctx, Display{o})
	}, observed...)
	if err != nil {
		return nil, err
	}
	return registration.Unregister, nil
}
