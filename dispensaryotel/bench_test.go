package dispensaryotel_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensaryotel"
	"github.com/dispensary-go/dispensary/webhook"
)

// setups are ways to observe a program, starting with none. The last one records every span
// and drops it, and keeps metrics.
func setups(b *testing.B) map[string]*dispensaryotel.Telemetry {
	b.Helper()
	all := map[string]*dispensaryotel.Telemetry{"floor": nil}
	for name, config := range map[string]dispensaryotel.Config{
		"no-op": {TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider()},
		"recorded": {
			TracerProvider: trace.NewTracerProvider(), MeterProvider: metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())),
		},
	} {
		var err error
		all[name], err = dispensaryotel.New(config)
		require.NoError(b, err)
	}
	return all
}

// BenchmarkCall measures a call of the client, on a transport without sockets.
func BenchmarkCall(b *testing.B) {
	const response = `{"clinic":{"id":"c-1","name":"Example Clinic"}}`
	canned := roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: http.Header{"X-Request-Id": {"0f3c1a52"}},
			Body: io.NopCloser(strings.NewReader(response)), ContentLength: int64(len(response)),
		}, nil
	})
	site := dispensary.Site{Environment: delivery("").Key.Environment, BaseURL: "https://platform.example/api", AuthURL: "https://auth.example"}
	for name, telemetry := range setups(b) {
		b.Run(name, func(b *testing.B) {
			options := []dispensary.Option{dispensary.WithTokenSource(token{}), dispensary.WithTransport(canned)}
			if telemetry != nil {
				options = append(options, dispensary.WithObserver(telemetry.Calls()))
			}
			client, err := dispensary.New(site, options...)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Clinic.Get(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type token struct{}

func (token) Token(context.Context) (api.AccessToken, error) {
	return api.AccessToken{Secret: dispensary.NewSecret("token"), Environment: delivery("").Key.Environment}, nil
}

// BenchmarkAttempt measures the observation of an attempt.
func BenchmarkAttempt(b *testing.B) {
	for name, telemetry := range setups(b) {
		b.Run(name, func(b *testing.B) {
			work := webhook.Work{Handle: succeed}
			if telemetry != nil {
				work = telemetry.Work(work)
			}
			work, err := work.WithDefaults()
			require.NoError(b, err)
			end := webhook.Attempt{Delivery: delivery("evt_1"), Number: 1, Result: webhook.ResultHandled}
			b.ReportAllocs()
			for b.Loop() {
				ctx := work.Observer.AttemptStart(context.Background(), end)
				work.Observer.AttemptEnd(ctx, end)
			}
		})
	}
}
