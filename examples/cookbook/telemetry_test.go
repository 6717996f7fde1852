package cookbook_test

import (
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensaryotel"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/webhook"
)

// names exports the names of spans.
type names chan string

func (n names) ExportSpans(_ context.Context, spans []trace.ReadOnlySpan) error {
	for _, span := range spans {
		n <- span.Name()
	}
	return nil
}

func (names) Shutdown(context.Context) error { return nil }

// One field observes all parts of an integration. The zero Config of package dispensaryotel
// uses the global providers. This one prints the names of spans.
func Example_traceIntegration() {
	spans := make(names, 100)
	telemetry, err := dispensaryotel.New(dispensaryotel.Config{TracerProvider: trace.NewTracerProvider(trace.WithSyncer(spans))})
	must(err)
	ctx := context.Background()
	platform := start()
	defer func() { _ = platform.Close() }()
	variables := append(platform.Variables(), "DISPENSARY_STORE=memory:", "DISPENSARY_INBOX=memory:")
	config, err := integration.Load(variables) // a program passes os.Environ()
	must(err)
	app, err := integration.Open(ctx, config, integration.Setup{
		Telemetry:        telemetry,
		Work:             webhook.Work{Handle: func(context.Context, events.Event) error { return nil }},
		DisableReconcile: true, // its spans come at random times
	})
	must(err)
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()

	connections, err := app.Accounts.Connections(platform.Site().Environment)
	must(err)
	address, err := connections.Client().AuthorizeURL(oauth.NewState())
	must(err)
	back, err := platform.Approve(address, platform.Users()[0])
	must(err)
	must(app.Accounts.Connect(ctx, "dr-17", dispensary.NewSecret(back.Query().Get("code"))))
	receiver, err := app.WebhooksOf(platform.Site().Environment)
	must(err)
	must(platform.Webhooks.RegisterHandler(receiver, model.EventOrderPlaced))
	_, _, err = platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
	must(err)

	var seen []string
	for !slices.Contains(seen, "receive webhook") || !slices.Contains(seen, "process order.placed") {
		seen = append(seen, <-spans)
	}
	must(app.Shutdown(ctx))
	must(<-ended)
	for _, name := range slices.Sorted(slices.Values(seen)) {
		fmt.Println(name)
	}
	// Output:
	// GET /clinic
	// POST /oauth/token
	// accept order.placed
	// clinic.get
	// oauth.token
	// process order.placed
	// receive webhook
}
