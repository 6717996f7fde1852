package signal

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Meter makes instruments, and remembers what was wrong with them.
type Meter struct {
	meter metric.Meter
	err   error
}

// NewMeter returns a meter of the given scope.
func NewMeter(provider metric.MeterProvider, scope, version string) *Meter {
	return &Meter{meter: provider.Meter(scope, metric.WithInstrumentationVersion(version))}
}

// Err returns what was wrong with the instruments.
func (m *Meter) Err() error { return m.err }

// Bounds of the buckets of histograms, in seconds.
var (
	// Requests are the bounds that the conventions advise for HTTP.
	Requests = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

	// Waits go from milliseconds to half a day.
	Waits = []float64{0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 43200}
)

// set returns attributes as the set of a measurement.
func set(attributes []Attribute) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(pairs(attributes)...))
}

// Histogram counts durations.
type Histogram struct{ histogram metric.Float64Histogram }

// Histogram makes a histogram of durations in seconds.
func (m *Meter) Histogram(name, description string, bounds []float64) Histogram {
	h, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(bounds...))
	m.err = errors.Join(m.err, err)
	return Histogram{h}
}

// Record counts a duration.
func (h Histogram) Record(ctx context.Context, d time.Duration, attributes ...Attribute) {
	if h.histogram.Enabled(ctx) {
		h.histogram.Record(ctx, d.Seconds(), set(attributes))
	}
}

// Counter counts.
type Counter struct{ counter metric.Int64Counter }

// Counter makes a counter of what unit says, for example "{event}".
func (m *Meter) Counter(name, description, unit string) Counter {
	c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.err = errors.Join(m.err, err)
	return Counter{c}
}

// Count adds one.
func (c Counter) Count(ctx context.Context, attributes ...Attribute) { c.Add(ctx, 1, attributes...) }

// Add adds n.
func (c Counter) Add(ctx context.Context, n int, attributes ...Attribute) {
	if c.counter.Enabled(ctx) {
		c.counter.Add(ctx, int64(n), set(attributes))
	}
}

// Gauge shows a number whenever metrics are collected.
type Gauge struct{ gauge metric.Float64ObservableGauge }

// Gauge makes a gauge of what unit says, for example "{event}".
func (m *Meter) Gauge(name, description, unit string) Gauge {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.err = errors.Join(m.err, err)
	return Gauge{g}
}

// Display is where gauges show their numbers.
type Display struct{ observer metric.Observer }

// Show shows the number of a gauge.
func (d Display) Show(g Gauge, value float64, attributes ...Attribute) {
	d.observer.ObserveFloat64(g.gauge, value, set(attributes))
}

// Watch calls read whenever metrics are collected, until stop is called.
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
