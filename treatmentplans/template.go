package treatmentplans

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Template is what protocols were called before. Lists carry ID, Name and
// CurrentState only.
// It prints as its type and id: see "Patient data" in package api.
//
// Deprecated: the platform has replaced templates by protocols; use [Protocol].
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

// TemplateListOptions says which part of a practitioner's templates is read.
//
// Deprecated: use [ProtocolListOptions].
type TemplateListOptions struct {
	api.Paging
}

func (s Templates) list(practitionerID string, options []api.RequestOption) transport.Call {
	return transport.Call{Operation: operation.TemplateList, Path: []string{practitionerID}, Options: options}
}

// List returns one page of a practitioner's templates.
//
// Deprecated: use [Protocols.List].
// API section: GET /clinic/practitioners/<practitioner_id>/templates.
func (s Templates) List(ctx context.Context, practitionerID string, o TemplateListOptions, options ...api.RequestOption) (*api.Page[Template], error) {
	return transport.List[Template](ctx, s.t, s.list(practitionerID, options), o.Paging)
}

// Pages returns a practitioner's templates page by page; an error ends the
// sequence.
//
// Deprecated: use [Protocols.Pages].
// API section: GET /clinic/practitioners/<practitioner_id>/templates.
func (s Templates) Pages(ctx context.Context, practitionerID string, o TemplateListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[Template], error] {
	return transport.Pages[Template](ctx, s.t, s.list(practitionerID, options), o.Paging)
}

// All returns a practitioner's templates one by one; an error ends the sequence.
//
// Deprecated: use [Protocols.All].
// API section: GET /clinic/practitioners/<practitioner_id>/templates.
func (s Templates) All(ctx context.Context, practitionerID string, o TemplateListOptions, options ...api.RequestOption) iter.Seq2[Template, error] {
	return transport.All[Template](ctx, s.t, s.list(practitionerID, options), o.Paging)
}

// Format prints type and id only.
func (t Template) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Template", t.ID) }

// LogValue logs type and id only.
func (t Template) LogValue() slog.Value { return redact.LogValue("treatmentplans.Template", t.ID) }
