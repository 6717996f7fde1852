package treatmentplans

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/internal/apierror/detail"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

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
		p.Fields[field] = []string{detail.Label(field) + " " + v.problem()}
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
