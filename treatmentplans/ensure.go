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
// Calls for the same ID through one client or its views run one after the other. The platform
// does not require unique metadata IDs. Let only one process at a time ensure a plan.
// Otherwise the platform may store two plans, and every later call reports them.
// API section: "Metadata", "Treatment plans".
func (s Service) Ensure(ctx context.Context, patientID string, n PlanCreate, options ...api.RequestOption) (plan *Plan, created bool, err error) {
	return transport.Ensure(ctx, s.t, n.create(patientID, options), n.Metadata.ID, (*Plan).ids, func(ctx context.Context) (*Plan, error) {
		op := operation.TreatmentPlanCreate
		found, err := metadata.Find[Plan](ctx, s.t, op, metadata.TreatmentPlan, n.Metadata.ID, options)
		if err == nil && found != nil && found.Patient.ID != patientID {
			return nil, &api.EnsureError{Operation: op.Name, Reason: api.EnsureReasonTaken, Field: "metadata.id", IDs: []string{found.ID}}
		}
		return found, err
	})
}

func (p *Plan) ids() (id, key string) { return p.ID, p.Metadata.ID }
