package events_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
)

// planBody is the body of a treatment plan event of about 2 KB.
func planBody(tb testing.TB) []byte {
	tb.Helper()
	recommendations := make([]any, 4)
	for i := range recommendations {
		recommendations[i] = map[string]any{
			"id":                fmt.Sprintf("5b1c7d52-6a5e-4f2e-9c39-9e0f0d0c%04d", i),
			"variant_id":        fmt.Sprintf("77aa7d52-1a5e-4f2e-9c39-1e0f0d0c%04d", i),
			"refill":            i%2 == 0,
			"units_to_purchase": i + 1,
			"dosage": map[string]any{
				"recommended_amount": "2", "recommended_frequency": "twice per day",
				"recommended_duration": "30 days", "format": "capsule",
				"additional_info": "synthetic text, take with food",
			},
		}
	}
	body, err := json.Marshal(map[string]any{"event": map[string]any{
		"id": "2f6f5c1e-7a35-4a3e-8f0b-0f4ad6c30001", "type": "treatment_plan.updated",
		"created_at": "2026-11-20T10:20:30Z", "clinic_id": "2f6f5c1e-7a35-4a3e-8f0b-0f4ad6c30002",
		"integration_id": "2f6f5c1e-7a35-4a3e-8f0b-0f4ad6c30003",
		"data": map[string]any{"treatment_plan": map[string]any{
			"id": "0f3b0d3e-7a1f-4b61-9f0e-3a5a5d1f0001", "state": "active",
			"patient":          map[string]any{"id": "0f3b0d3e-7a1f-4b61-9f0e-3a5a5d1f0002"},
			"practitioner":     map[string]any{"id": "0f3b0d3e-7a1f-4b61-9f0e-3a5a5d1f0003"},
			"available_at":     "2026-11-20T10:20:30Z",
			"personal_message": strings.Repeat("synthetic message. ", 13),
			"recommendations":  recommendations,
		}},
	}})
	require.NoError(tb, err)
	return body
}

// BenchmarkParse measures Parse beside its floor: one decode by encoding/json
// into a struct that keeps the data raw.
func BenchmarkParse(b *testing.B) {
	body := planBody(b)
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var envelope struct {
				Event struct {
					ID            string          `json:"id"`
					Type          string          `json:"type"`
					CreatedAt     time.Time       `json:"created_at"`
					ClinicID      string          `json:"clinic_id"`
					IntegrationID string          `json:"integration_id"`
					Data          json.RawMessage `json:"data"`
				} `json:"event"`
			}
			if err := json.Unmarshal(body, &envelope); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := events.Parse(body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json.Valid", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !json.Valid(body) {
				b.Fatal("invalid")
			}
		}
	})
}
