// Package treatmentplans creates, reads and changes treatment plans: a practitioner's
// recommendations to a patient. It also creates links to the platform's own pages for
// completing a plan.
//
//	plan, err := client.TreatmentPlans.Create(ctx, patientID, treatmentplans.PlanCreate{
//		PractitionerID:  practitionerID,
//		State:           treatmentplans.StateDraft,
//		Recommendations: []treatmentplans.Recommendation{{VariantID: variantID, UnitsToPurchase: 1}},
//	})
//	plan, err = client.TreatmentPlans.Activate(ctx, plan.ID)
//
// A new plan is a draft or active. Activation sends a draft to the patient. Cancellation
// empties the recommendations of an active plan. Protocols are reusable, read-only plans.
// [Protocol.NewPlan] returns a plan for a protocol.
//
// Plans are patient data. The types of this package print only their type and ID. See "Patient
// data" in package api for the exceptions.
//
// API sections: "Treatment plans", "Protocols and templates", "Dynamic links".
package treatmentplans

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/resource"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Service calls the treatment plan endpoints. Get it from the root client.
type Service struct {
	DynamicLinks DynamicLinks
	Protocols    Protocols

	// Templates is the former name of Protocols.
	//
	// Deprecated: use Protocols.
	Templates Templates

	t *transport.Client
}

// NewService returns the service. It is for this module only: t is internal.
func NewService(t *transport.Client) Service {
	return Service{
		DynamicLinks: DynamicLinks{t},
		Protocols:    Protocols{t},
		Templates:    Templates{t},
		t:            t,
	}
}

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
	return resource.Get[Plan](ctx, s.t, resource.TreatmentPlan, id, options)
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
			return ofPatient(resource.Find[Plan](ctx, s.t, op, resource.TreatmentPlan, n.Metadata.ID, options))
		},
		Get: func(ctx context.Context, id string) (*Plan, error) { return ofPatient(s.Get(ctx, id, options...)) },
	})
}

func (p *Plan) ids() (id, key string) { return p.ID, p.Metadata.ID }

// CheckAvailable looks up each distinct variant of the recommendations with one call. It
// returns an [*UnavailableError] with the variants that the catalog does not call available. A
// protocol may be older than the catalog, and the API does not document whether the platform
// rejects a plan with such a variant, so call it before [Service.Create]. It needs the scope
// catalog:read.
// API section: GET /catalog/variants/<id>.
func (s Service) CheckAvailable(ctx context.Context, recommendations []Recommendation, options ...api.RequestOption) error {
	var wrong api.ArgumentErrors
	for i, r := range recommendations {
		for _, field := range transport.Blank(variantField(i), r.VariantID) {
			wrong = append(wrong, &api.ArgumentError{Operation: operation.VariantGet.Name, Field: field, Reason: "can't be blank"})
		}
	}
	if err := wrong.Err(); err != nil {
		return err
	}
	var unavailable []UnavailableVariant
	known := map[string]UnavailableVariant{}
	for i, r := range recommendations {
		found, ok := known[r.VariantID]
		if !ok {
			variant, err := catalog.NewService(s.t).Variants.Get(ctx, r.VariantID, options...)
			switch {
			case errors.Is(err, api.ErrNotFound):
				found = UnavailableVariant{VariantID: r.VariantID, Unknown: true}
			case err != nil:
				return err
			default:
				found = UnavailableVariant{VariantID: r.VariantID, Status: variant.Status}
			}
			known[r.VariantID] = found
		}
		if found.Status != catalog.StatusAvailable {
			found.Position = i
			unavailable = append(unavailable, found)
		}
	}
	if len(unavailable) > 0 {
		return &UnavailableError{Variants: unavailable}
	}
	return nil
}

// UnavailableError lists the recommended variants without the status available.
type UnavailableError struct {
	// Variants lists them in the order of the recommendations.
	Variants []UnavailableVariant
}

// UnavailableVariant is a recommended variant that is not available.
type UnavailableVariant struct {
	// Position is the index of the recommendation in its list, from 0.
	Position  int
	VariantID string

	// Status is the status in the catalog, or empty if it has none. See [catalog.Status] for
	// its values. A backordered variant is not available either.
	Status catalog.Status

	// Unknown reports whether the catalog lacks the variant.
	Unknown bool
}

// Error names the variants.
func (e *UnavailableError) Error() string {
	if e == nil {
		return "<nil>"
	}
	var all []string
	for _, v := range e.Variants {
		all = append(all, v.VariantID+" "+v.problem())
	}
	return "dispensary: unavailable variants: " + strings.Join(all, ", ")
}

// Problem returns a sentence for each variant, by its field ("recommendations[1].variant_id").
// See [api.ProblemOf].
func (e *UnavailableError) Problem() *api.Problem {
	if e == nil {
		return nil
	}
	p := &api.Problem{Status: http.StatusUnprocessableEntity, Title: "Some products are not available.", Fields: map[string][]string{}}
	for _, v := range e.Variants {
		field := variantField(v.Position)
		p.Fields[field] = []string{hidden.Label(field) + " " + v.problem()}
	}
	return p
}

func (v UnavailableVariant) problem() string {
	switch {
	case v.Unknown:
		return "is not in the catalog"
	case v.Status == "":
		return "has no status"
	}
	return "is " + string(v.Status)
}

func variantField(position int) string {
	return "recommendations[" + strconv.Itoa(position) + "].variant_id"
}
