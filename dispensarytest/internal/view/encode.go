// Package view encodes the platform's resources as JSON, for responses and for the data of
// events.
package view

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Encode returns the JSON of a value.
func Encode(v any) json.RawMessage {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // reachable only with a view of a type that JSON does not support
	}
	return bytes.TrimRight(body.Bytes(), "\n")
}

// Rewriter returns a function that rewrites bodies before they are sent, or nil.
func Rewriter(r *rules.Set) func([]byte) []byte {
	if !r.Is(behavior.EmptyValuesAbsent) {
		return nil
	}
	return func(body []byte) []byte {
		var document any
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		if err := decoder.Decode(&document); err != nil {
			panic(err) // only our own bodies are rewritten
		}
		dropNulls(document)
		return Encode(document)
	}
}

// dropNulls deletes every key without a value, except those of meta, which the API shows
// as null.
func dropNulls(document any) {
	switch value := document.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(_ string, member any) bool { return member == nil })
		for key, member := range value {
			if key != "meta" {
				dropNulls(member)
			}
		}
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}

// NullText returns nil if s is empty.
func NullText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Time formats a timestamp as ISO 8601 in UTC.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// NullTime formats a time. It returns nil if t is zero.
func NullTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := Time(t)
	return &s
}

// NullDay formats a date. It returns nil if t is zero.
func NullDay(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format(time.DateOnly)
	return &s
}

// EventView is an event in responses and webhooks.
type EventView struct {
	ID            string          `json:"id"`
	Type          string          `json:"type"`
	CreatedAt     string          `json:"created_at"`
	ClinicID      string          `json:"clinic_id,omitempty"`
	Data          json.RawMessage `json:"data,omitempty"`
	IntegrationID string          `json:"integration_id,omitempty"` // in webhooks
}

func EventItem(e *model.Event) EventView {
	return EventView{ID: e.ID, Type: e.Type, CreatedAt: Time(e.CreatedAt), ClinicID: e.ClinicID}
}

func Event(e *model.Event) EventView {
	view := EventItem(e)
	view.Data = e.Data
	return view
}

// ClinicKey is the data of clinic key events, which the API does not show. Assumption: it
// contains the clinic and the integration, and not the key.
func ClinicKey(i *store.Integration) any {
	return map[string]any{"clinic_key": map[string]string{"clinic_id": i.ClinicID, "integration_id": i.ID}}
}

// EventScope returns the scope that a token needs to read an event, and that a clinic needs to
// receive it: an assumption. Clinic key events are sent without a scope.
func EventScope(kind string) string {
	switch {
	case strings.HasPrefix(kind, "patient."):
		return operations.ScopePatientsRead
	case strings.HasPrefix(kind, "treatment_plan."):
		return operations.ScopePlanHistory
	case strings.HasPrefix(kind, "order."):
		return operations.ScopeOrderHistory
	case strings.HasPrefix(kind, "product."):
		return operations.ScopeCatalog
	default:
		return operations.ScopeClinicRead
	}
}

// EncodeDelivery returns the body of an event for an integration, in an event payload if
// wrapped is set.
func EncodeDelivery(e *model.Event, integrationID string, wrapped bool) []byte {
	view := Event(e)
	view.IntegrationID = integrationID
	payload := map[string]any{"event": view}
	if wrapped {
		payload = map[string]any{"event_payload": payload}
	}
	return Encode(payload)
}
