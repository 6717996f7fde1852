package treatmentplans

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Template is the former name of a protocol. Lists return only ID, Name and CurrentState. It
// prints as its type and ID: see "Patient data" in package api.
//
// Deprecated: the platform has replaced templates by protocols. Use [Protocol].
// API section: "Protocol" (template), "Versioning" 5.
type Template struct {
	ID              string                   `json:"id"`
	Name            string                   `json:"name"`
	CurrentState    State                    `json:"current_state"`
	PractitionerID  string                   `json:"practitioner_id"`
	PersonalMessage string                   `json:"personal_message"`
	Recommendations []ProtocolRecommendation `json:"recommendations"`
}

// Templates calls the template endpoints.
//
// Deprecated: use [Protocols].
type Templates struct{ t *transport.Client }

// Get returns one template with its recommendations.
//
// Deprecated: use [Protocols.Get].
// API section: GET /clinic/templates/<id>.
func (s Templates) Get(ctx context.Context, id string, options ...api.RequestOption) (*Template, error) {
	return transport.One[Template](ctx, s.t, transport.Call{Operation: operation.TemplateGet, Path: []string{id}, Options: options})
}

// ListForPractitioner returns a practitioner's templates.
//
// Deprecated: use [Protocols.ListForPractitioner].
// API section: GET /clinic/practitioners/<practitioner_id>/templates.
func (s Templates) ListForPractitioner(practitionerID string, options ...api.RequestOption) *api.List[Template] {
	return transport.NewList[Template](s.t, transport.Call{Operation: operation.TemplateList, Path: []string{practitionerID}, Options: options})
}

// Format prints type and ID only.
func (t Template) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Template", t.ID) }

// LogValue logs type and ID only.
func (t Template) LogValue() slog.Value { return redact.LogValue("treatmentplans.Template", t.ID) }
