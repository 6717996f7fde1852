package treatmentplans

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/metadata"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Ensure returns the patient's plan that carries n.Metadata.ID, which is
// required, and creates it where there is none. It reports whether it did. A plan
// that is found is returned as it is, in whatever state.
//
// It is safe to repeat, and safe where an answer is lost: a create call without a
// clear answer is followed by looks for the plan, and by another create call only
// where the platform itself, and no gateway, has answered 500. Where
// no answer came, or one that a gateway gives (502, 503, 504, a page instead of
// JSON), and no plan appears, the error is an [*api.EnsureError] that matches
// [api.ErrMaybeApplied]: the platform may still be at work, so ensure again later.
//
// Callers that share a client, or views of it, ensure one id after the other. The
// platform does not make metadata ids unique: let one process at a time ensure a
// plan, or the platform may end with two, which every later call reports.
// API section: "Metadata", "Treatment plans".
func (s Service) Ensure(ctx context.Context, patientID string, n NewPlan, options ...api.RequestOption) (plan *Plan, created bool, err error) {
	return transport.Ensure(ctx, s.t, n.create(patientID, options), n.Metadata.ID, func(ctx context.Context) (*Plan, error) {
		op := operation.TreatmentPlanCreate
		found, err := metadata.Find[Plan](ctx, s.t, op, string(clinic.MetadataTreatmentPlan), n.Metadata.ID, options)
		if err == nil && found != nil && found.Patient.ID != patientID {
			return nil, &api.EnsureError{Operation: op.Name, Reason: api.EnsureTaken, Field: "metadata.id", IDs: []string{found.ID}}
		}
		return found, err
	})
}
