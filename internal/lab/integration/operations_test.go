package integration_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/testkit/enginetest"
	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
	"github.com/dispensary-go/dispensary/webhook"
)

// BenchmarkOperations measures the response time of the operations pages with 3 and with 10,000
// dead letters of 40 clinics, 4 types and 3 reasons.
func BenchmarkOperations(b *testing.B) {
	for name, inbox := range map[string]func(testing.TB) string{
		"SQLite":     func(t testing.TB) string { return "sqlite:" + file(t) },
		"PostgreSQL": postgrestest.Schema,
	} {
		for _, n := range []int{3, 10_000} {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				f := newFixture(b).kept("sqlite:"+file(b), inbox(b))
				i := f.deadLetters(b, n)
				server := httptest.NewServer(i.Operations)
				defer server.Close()
				for page, path := range map[string]string{
					"overview": "", "dead letters": "events?state=dead", "clinic": "events?clinic=cl_1",
					"reason": "events?reason=permanent:+reason_1", "dry run": "bulk?action=replay&reason=permanent:+reason_1",
				} {
					b.Run(page, func(b *testing.B) { measure(b, server.URL+"/"+path) })
				}
			})
		}
	}
}

// deadLetters returns a running integration with n dead letters.
func (f *fixture) deadLetters(b *testing.B, n int) *integration.Integration {
	b.Helper()
	var handled sync.WaitGroup
	handled.Add(n)
	setup := f.setup(func(ctx context.Context, _ events.Event) error {
		return webhook.Permanent(webhook.WithReason("reason_"+webhook.HandlingFrom(ctx).Key.EventID[:1], io.EOF))
	})
	setup.DisableReconcile, setup.Work.Workers = true, 16
	setup.Work.Observer.AttemptEnd = func(context.Context, webhook.Attempt) { handled.Done() }
	i := f.open(b, setup)
	b.Cleanup(running(b, i))
	enginetest.AcceptMany(b, i.Inbox, n)
	handled.Wait()
	return i
}

// measure reports the median time of responses.
func measure(b *testing.B, url string) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		response, err := http.Get(url)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(b, err)
		require.NoError(b, response.Body.Close())
		require.Equal(b, http.StatusOK, response.StatusCode)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
}
