package enginetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// BenchmarkDead measures the calls of an operations page with 3 and with 10,000 dead letters
// of 40 clinics, 4 types and 3 reasons. open returns an engine with 32 workers.
func BenchmarkDead(b *testing.B, open func(*testing.B, webhook.Work) engine.Engine) {
	for _, n := range []int{3, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var handled sync.WaitGroup
			handled.Add(n)
			inbox := open(b, webhook.Work{
				Workers: 32, Retry: webhook.RetryPolicy{MaxAttempts: 1},
				Handle: func(ctx context.Context, _ events.Event) error {
					return webhook.WithReason("reason_"+webhook.HandlingFrom(ctx).Key.EventID[:1], errDown)
				},
				Observer: webhook.Observer{AttemptEnd: func(context.Context, webhook.Attempt) { handled.Done() }},
			})
			AcceptMany(b, inbox, n)
			handled.Wait()
			benchmarkCalls(b, inbox, n)
		})
	}
}

// AcceptMany accepts n events of 40 clinics and 4 types. Their IDs begin with 0, 1 or 2.
func AcceptMany(b *testing.B, inbox webhook.Inbox, n int) {
	b.Helper()
	types := []events.Type{events.TypePatientUpdated, events.TypePatientCreated, "order.shipped", "order.updated"}
	var senders sync.WaitGroup
	for of := range 50 {
		senders.Go(func() {
			for m := of; m < n; m += 50 {
				d := patient(fmt.Sprint(m%3, "evt_", m), fmt.Sprint("pa_", m), 1)
				d.Body = append(d.Body, bytes.Repeat([]byte(" "), 1800)...)
				d.ClinicID, d.Type = fmt.Sprint("cl_", m%40), types[m/40%4]
				_, err := inbox.Accept(context.Background(), d)
				require.NoError(b, err)
			}
		})
	}
	senders.Wait()
}

// benchmarkCalls measures calls with n dead letters.
func benchmarkCalls(b *testing.B, inbox engine.Engine, n int) {
	recently := time.Now().Add(-time.Hour)
	for name, f := range map[string]engine.Filter{
		"all": {}, "type": {Type: events.TypePatientUpdated}, "clinic": {ClinicID: "cl_1"}, "reason": {Reason: "reason_1"},
		"since": {GivenUpFrom: recently}, "ID": {ID: "evt_1"}, "unknown ID": {ID: "unknown"},
	} {
		f.States = dead.States
		b.Run("Count/"+name, func(b *testing.B) {
			for b.Loop() {
				_, err := inbox.Count(context.Background(), f, 20_000)
				require.NoError(b, err)
			}
		})
	}
	b.Run("Stats", func(b *testing.B) {
		for b.Loop() {
			stats, err := inbox.Stats(context.Background())
			require.NoError(b, err)
			require.Equal(b, n, stats.Dead)
		}
	})
	for name, f := range map[string]engine.Filter{"all": {}, "reason": {Reason: "reason_1"}, "unknown ID": {ID: "unknown"}} {
		f.States = dead.States
		b.Run("List/"+name, func(b *testing.B) {
			for b.Loop() {
				_, err := inbox.List(context.Background(), f, engine.Page{Limit: 51})
				require.NoError(b, err)
			}
		})
	}
	b.Run("Finished", func(b *testing.B) {
		for b.Loop() {
			_, err := inbox.Finished(context.Background(), "unknown")
			require.NoError(b, err)
		}
	})
}
