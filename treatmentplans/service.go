package treatmentplans

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/metadata"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Create creates a plan for a patient, as a draft or active. If the response is lost, the
// error matches [api.ErrMaybeApplied]. Search before you create it again, because the platform
// sends a second active plan to the patient too.
// API section: POST /clinic/patients/<patient_id>/treatment_plans.
func (s Service) Create(ctx context.Context, patientID string, n PlanCreate, options ...api.RequestOption) (*Plan, error) {
	return transport.One[Plan](ctx, s.t, n.create(patientID, options))
}

func (n PlanCreate) create(patientID string, options []api.RequestOption) transport.Call {
	blank := transport.Blank("practitioner_id", n.PractitionerID)
	if len(n.Recommendations) == 0 {
		blank = append(blank, "recommendations")
	}
	return transport.Call{Operation: operation.TreatmentPlanCreate, Path: []string{patientID}, Body: n, Blank: blank, Options: options}
}

// Get returns one plan with its recommendations. An unknown ID matches
// [api.ErrNotFound].
// API section: GET /clinic/treatment_plans/<id>.
func (s Service) Get(ctx context.Context, id string, options ...api.RequestOption) (*Plan, error) {
	return transport.One[Plan](ctx, s.t, transport.Call{Operation: operation.TreatmentPlanGet, Path: []string{id}, Options: options})
}

// ByMetadataID returns the plan with your metadata ID. If there is none, the error matches
// [api.ErrNotFound]. If there are several, it is an [*api.EnsureError] with the reason
// [api.EnsureReasonAmbiguous] and the platform's IDs. An empty ID is an [*api.ArgumentError].
// The API does not state how soon a lookup shows a new record.
// API section: GET /clinic/metadata.
func (s Service) ByMetadataID(ctx context.Context, id string, options ...api.RequestOption) (*Plan, error) {
	return metadata.Get[Plan](ctx, s.t, metadata.TreatmentPlan, id, options)
}

// Update replaces a plan's recommendations and changes the other fields that u sets. It writes
// back the unknown members of recommendations that you have read.
// API section: PATCH /clinic/treatment_plans/<id>.
func (s Service) Update(ctx context.Context, id string, u PlanUpdate, options ...api.RequestOption) (*Plan, error) {
	call := transport.Call{Operation: operation.TreatmentPlanUpdate, Path: []string{id}, Body: u.body(), Options: options}
	if u.Recommendations == nil {
		call.Blank = []string{"recommendations"}
	}
	return transport.One[Plan](ctx, s.t, call)
}

// Activate makes a draft active and sends it to the patient. Assumption: the platform rejects
// any other plan with [api.ErrValidation].
// API section: PATCH /clinic/treatment_plans/<id>/activate.
func (s Service) Activate(ctx context.Context, id string, options ...api.RequestOption) (*Plan, error) {
	return transport.One[Plan](ctx, s.t, transport.Call{Operation: operation.TreatmentPlanActivate, Path: []string{id}, Options: options})
}

// Cancel cancels an active plan and removes its recommendations. Assumption: the platform
// rejects any other plan with [api.ErrValidation].
// API section: PATCH /clinic/treatment_plans/<id>/cancel.
func (s Service) Cancel(ctx context.Context, id string, options ...api.RequestOption) (*Plan, error) {
	return transport.One[Plan](ctx, s.t, transport.Call{Operation: operation.TreatmentPlanCancel, Path: []string{id}, Options: options})
}

// InOfficeCheckout clears the cart of the plan's patient, fills it from the plan and returns
// the page for paying in the office.
// API section: POST /clinic/treatment_plans/<id>/in_office_checkout.
func (s Service) InOfficeCheckout(ctx context.Context, id string, options ...api.RequestOption) (*Checkout, error) {
	return transport.One[Checkout](ctx, s.t, transport.Call{Operation: operation.TreatmentPlanCheckout, Path: []string{id}, Options: options})
}

// ListOptions sort a patient's plans.
type ListOptions struct {
	// SortBy is the field to sort by. Empty means the platform's own order.
	SortBy    Sort          `url:"sort_by,omitempty"`
	SortOrder api.SortOrder `url:"order_by,omitempty"`
}

// Sort is a sort field of plans.
type Sort string

// The sort fields of plans.
const (
	SortCreatedAt Sort = "created_at"
	SortUpdatedAt Sort = "updated_at"
)

// ListForPatient returns a patient's plans.
// API section: GET /clinic/patients/<patient_id>/treatment_plans.
func (s Service) ListForPatient(patientID string, o ListOptions, options ...api.RequestOption) *api.List[PlanSummary] {
	return transport.NewList[PlanSummary](s.t, transport.Call{Operation: operation.TreatmentPlanList, Path: []string{patientID}, Query: o, Options: options})
}
