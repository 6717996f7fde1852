package view

import (
	"encoding/json"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

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

// clinicKeyView is the data of clinic key events, which the API does not show. Assumption: it
// contains the clinic and the integration, and not the key.
type clinicKeyView struct {
	ClinicKey struct {
		ClinicID      string `json:"clinic_id"`
		IntegrationID string `json:"integration_id"`
	} `json:"clinic_key"`
}

func ClinicKey(i *store.Integration) clinicKeyView {
	var view clinicKeyView
	view.ClinicKey.ClinicID, view.ClinicKey.IntegrationID = i.ClinicID, i.ID
	return view
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

// EncodeDelivery returns the body of an event for an integration. If payloadName is set, the
// body is wrapped in a payload with this name.
func EncodeDelivery(e *model.Event, integrationID, payloadName string) []byte {
	view := Event(e)
	view.IntegrationID = integrationID
	var payload any = struct {
		Event EventView `json:"event"`
	}{view}
	if payloadName != "" {
		payload = map[string]any{payloadName: payload}
	}
	return Encode(payload)
}
