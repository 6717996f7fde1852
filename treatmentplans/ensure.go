package treatmentplans

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/metadata"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Ensure returns the patient's plan with the metadata ID n.Metadata.ID, which is required. If
// there is none, Ensure creates the plan. It reports whether it created the plan. It returns
// an existing plan unchanged, in any state.
//
// Ensure is idempotent. It makes at most one create call, and searches for the plan if that
// call has no clear outcome. If the plan does not appear, the error is an [*api.EnsureError]
// that matches [api.ErrMaybeApplied]. The platform may still be processing the call, so ensure
// the plan again later. If the platform stored a different metadata ID, the error contains the
// ID of the created plan.
//
// Calls for the same clinic and ID through one client or its views run one after the other.
// For 24 hours they return the created plan even if the platform's lookup does not show it
// yet, and they create no other plan if the platform has altered the metadata ID. After a
// create call without a clear outcome, they create no other plan for 2 minutes.
//
// Another process knows only the lookup, and the platform does not require unique metadata
// IDs. Let only one process at a time ensure a plan, and a new process only after the lookup
// shows the plans of the old one. Otherwise the platform may store two plans, and every later
// call reports them.
// API section: "Metadata", "Treatment plans".
func (s Service) Ensure(ctx context.Context, patientID string, n PlanCreate, options ...api.RequestOption) (plan *Plan, created bool, err error) {
	op := operation.TreatmentPlanCreate
	ofPatient := func(found *Plan, err error) (*Plan, error) {
		if err == nil && found != nil && found.Patient.ID != patientID {
			return nil, &api.EnsureError{Operation: op.Name, Reason: api.EnsureReasonTaken, Field: "metadata.id", IDs: []string{found.ID}}
		}
		return found, err
	}
	return transport.Ensure(ctx, s.t, transport.Ensuring[Plan]{
		Call: n.create(patientID, options), ID: n.Metadata.ID, IDs: (*Plan).ids,
		Find: func(ctx context.Context) (*Plan, error) {
			return ofPatient(metadata.Find[Plan](ctx, s.t, op, metadata.TreatmentPlan, n.Metadata.ID, options))
		},
		Get: func(ctx context.Context, id string) (*Plan, error) { return ofPatient(s.Get(ctx, id, options...)) },
	})
}

func (p *Plan) ids() (id, key string) { return p.ID, p.Metadata.ID }
