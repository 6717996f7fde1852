package dispensaryotel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensaryotel"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// The zero Config uses the global providers. Here the spans stay in memory.
func Example() {
	spans := tracetest.NewInMemoryExporter()
	telemetry, err := dispensaryotel.New(dispensaryotel.Config{TracerProvider: trace.NewTracerProvider(trace.WithSyncer(spans))})
	if err != nil {
		log.Fatal(err)
	}
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = platform.Close() }()

	client := platform.Client(model.User{}, dispensary.WithObserver(telemetry.Calls())) // or dispensary.New
	if _, err := client.Clinic.Get(context.Background()); err != nil {
		log.Fatal(err)
	}
	for _, span := range spans.GetSpans() { // in the order in which they ended
		fmt.Println(span.SpanKind, span.Name)
	}
	// Output:
	// client GET /clinic
	// internal clinic.get
}
