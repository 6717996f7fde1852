// Otel shows what OpenTelemetry sees of an integration: the spans of a call whose
// token has to be refreshed and whose first attempt fails, those of a webhook from
// the request to what its handler does, and the metrics of both.
//
//	go run ./examples/otel
//
// It starts a fake of the platform, observes everything through the otel package,
// and prints the spans and metrics at the end. A real program gives the providers
// an exporter to its collector, and does nothing else differently.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/dispensary-go/dispensary/dispensarytest"
	dispensaryotel "github.com/dispensary-go/dispensary/otel"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "otel:", err)
		os.Exit(1)
	}
}

// run lets something happen and prints what was seen of it.
func run(ctx context.Context, out io.Writer) (err error) {
	platform, err := dispensarytest.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, platform.Close()) }()

	spans, metrics := tracetest.NewInMemoryExporter(), metric.NewManualReader()
	tracers := trace.NewTracerProvider(trace.WithSyncer(spans))
	meters := metric.NewMeterProvider(metric.WithReader(metrics))
	telemetry, err := dispensaryotel.New(dispensaryotel.Config{TracerProvider: tracers, MeterProvider: meters})
	if err != nil {
		return err
	}
	app, err := newApp(platform, telemetry)
	if err != nil {
		return err
	}
	if err := errors.Join(app.call(ctx), app.receive(ctx), app.close(ctx)); err != nil {
		return err
	}
	printSpans(out, spans.GetSpans())
	return printMetrics(ctx, out, metrics)
}
