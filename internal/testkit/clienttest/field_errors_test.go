package clienttest_test

import (
	"context"
	"math/bits"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// form is a call with its required fields.
type form struct {
	path     string
	required []string

	// fill returns a body with text in the blank fields and valid values in the others, and a
	// call that sends the body.
	fill func(f *calltest.Fixture, blank []string, text string) (body any, send func(context.Context) error)
}

// pick returns text for a blank field and good for any other field.
func pick(blank []string, field, text, good string) string {
	if slices.Contains(blank, field) {
		return text
	}
	return good
}

var forms = map[string]form{
	"patients.create": {"/clinic/patients", []string{"email", "first_name", "last_name"}, func(f *calltest.Fixture, blank []string, text string) (any, func(context.Context) error) {
		n := clinic.PatientCreate{
			Email: pick(blank, "email", text, "new@example.com"), FirstName: pick(blank, "first_name", text, "New"), LastName: pick(blank, "last_name", text, "Example"),
		}
		return n, func(ctx context.Context) error { _, err := f.Client.Clinic.Patients.Create(ctx, n); return err }
	}},
	"practitioners.create": {"/clinic/practitioners", []string{"practitioner_type_id", "email", "first_name", "last_name"}, func(f *calltest.Fixture, blank []string, text string) (any, func(context.Context) error) {
		n := clinic.PractitionerCreate{
			PractitionerTypeID: pick(blank, "practitioner_type_id", text, f.PractitionerType),
			Email:              pick(blank, "email", text, "new@example.com"), FirstName: pick(blank, "first_name", text, "New"), LastName: pick(blank, "last_name", text, "Doctor"),
		}
		return n, func(ctx context.Context) error { _, err := f.Client.Clinic.Practitioners.Create(ctx, n); return err }
	}},
	"staff.create": {"/clinic/staff", []string{"email", "first_name", "last_name"}, func(f *calltest.Fixture, blank []string, text string) (any, func(context.Context) error) {
		n := clinic.StaffMemberCreate{
			Email: pick(blank, "email", text, "new@example.com"), FirstName: pick(blank, "first_name", text, "New"), LastName: pick(blank, "last_name", text, "Desk"),
		}
		return n, func(ctx context.Context) error { _, err := f.Client.Clinic.Staff.Create(ctx, n); return err }
	}},
	"treatment_plans.create": {"/clinic/patients/%s/treatment_plans", []string{"practitioner_id", "recommendations"}, func(f *calltest.Fixture, blank []string, text string) (any, func(context.Context) error) {
		n := treatmentplans.PlanCreate{PractitionerID: pick(blank, "practitioner_id", text, f.Practitioner)}
		if !slices.Contains(blank, "recommendations") {
			n.Recommendations = []treatmentplans.Recommendation{{VariantID: f.Variant, UnitsToPurchase: 1}}
		}
		return n, func(ctx context.Context) error {
			_, err := f.Client.TreatmentPlans.Create(ctx, f.Patient, n)
			return err
		}
	}},
	"dynamic_links.create": {"/clinic/dynamic_links/treatment_plans", []string{"patient.email"}, func(f *calltest.Fixture, blank []string, text string) (any, func(context.Context) error) {
		n := treatmentplans.DynamicLinkCreate{PractitionerID: f.Practitioner, Patient: &treatmentplans.DynamicLinkPatient{Email: pick(blank, "patient.email", text, "new@example.com")}}
		body := map[string]any{"treatment_plan": map[string]string{"practitioner_id": f.Practitioner}, "patient": n.Patient}
		return body, func(ctx context.Context) error {
			_, err := f.Client.TreatmentPlans.DynamicLinks.Create(ctx, n)
			return err
		}
	}},
}

// For every choice of blank fields and every blank text, the client reports all blank fields
// without a request. Its messages equal the first messages of the platform for the same body,
// field by field and word by word.
func TestBlankFieldErrorsMatchPlatform(t *testing.T) {
	t.Parallel()
	for operation, form := range forms {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			f := calltest.NewFixture(t)
			path := strings.Replace(form.path, "%s", f.Patient, 1)
			for _, text := range []string{"", " ", "\t \n", "\u00a0", "\u3000\u2028"} {
				for which := 1; which < 1<<len(form.required); which++ {
					var blank []string
					for i, field := range form.required {
						if which&(1<<i) != 0 {
							blank = append(blank, field)
						}
					}
					f.Platform.Journal.Reset()
					body, send := form.fill(f, blank, text)
					err := send(t.Context())
					require.ErrorIs(t, err, api.ErrArgument)
					require.ErrorIs(t, err, dispensary.ErrNotSent)
					assert.Empty(t, f.Platform.Journal.Requests(), "a request was sent")
					var first *api.ArgumentError
					require.ErrorAs(t, err, &first)
					assert.Equal(t, operation, first.Operation)
					assert.Equal(t, blank[0], first.Field)

					found := dispensary.ProblemOf(err).Fields
					assert.Len(t, found, bits.OnesCount(uint(which)))
					_, err = f.Client.Do(t.Context(), dispensary.RawRequest{Method: http.MethodPost, Path: path, Body: body})
					require.ErrorIs(t, err, dispensary.ErrNotApplied)
					said := dispensary.ProblemOf(err).Fields
					for field, messages := range said {
						said[field] = messages[:1] // the platform also reports an invalid email address
					}
					assert.Equal(t, found, said, "%v %q", blank, text)
				}
			}
			// Only the platform can reject a text that looks blank but is not white space.
			f.Platform.Journal.Reset()
			_, send := form.fill(f, form.required, "\u200b")
			_ = send(t.Context())
			if operation != "treatment_plans.create" { // a list has no text
				assert.Len(t, f.Platform.Journal.Requests(), 1, "no request was sent")
			}
		})
	}
}

// rejections are calls that the platform rejects, with the fields of its messages: "" for Other.
var rejections = map[string]struct {
	call   func(ctx context.Context, f *calltest.Fixture) error
	fields []string
}{
	"every field of a patient": {func(ctx context.Context, f *calltest.Fixture) error {
		_, err := f.Client.Clinic.Patients.Create(ctx, clinic.PatientCreate{
			Email: "jane.doe@example.org", FirstName: strings.Repeat("x", 300), LastName: strings.Repeat("x", 300), Gender: "other", MobileNumber: "555", Discount: 101,
			Metadata: clinic.Metadata{ID: strings.Repeat("x", 300)},
		})
		return err
	}, []string{"discount", "email", "first_name", "gender", "last_name", "metadata.id", "mobile_number"}},
	"emptied patient": {func(ctx context.Context, f *calltest.Fixture) error {
		_, err := f.Client.Clinic.Patients.Update(ctx, f.Patient, clinic.PatientUpdate{
			Email: dispensary.Value(" "), LastName: dispensary.Null[string](), Metadata: dispensary.Value(clinic.Metadata{ID: strings.Repeat("x", 300)}),
		})
		return err
	}, []string{"email", "last_name", "metadata.id"}},
	"practitioner": {func(ctx context.Context, f *calltest.Fixture) error {
		_, err := f.Client.Clinic.Practitioners.Create(ctx, clinic.PractitionerCreate{PractitionerTypeID: "none", Email: "no address", FirstName: "New", LastName: "Doctor"})
		return err
	}, []string{"email", "practitioner_type_id"}},
	"staff member": {func(ctx context.Context, f *calltest.Fixture) error {
		_, err := f.Client.Clinic.Staff.Update(ctx, f.Staff, clinic.StaffMemberUpdate{Email: dispensary.Value("no address"), FirstName: dispensary.Value("")})
		return err
	}, []string{"email", "first_name"}},
	"plan": {func(ctx context.Context, f *calltest.Fixture) error {
		_, err := f.Client.TreatmentPlans.Create(ctx, f.Patient, treatmentplans.PlanCreate{
			PractitionerID: "none", State: "odd", Recommendations: []treatmentplans.Recommendation{
				{VariantID: f.Variant, UnitsToPurchase: 1}, {VariantID: "none", UnitsToPurchase: -1},
				{VariantID: f.Variant, UnitsToPurchase: 1, Dosage: treatmentplans.Dosage{Amount: "once per day", Duration: treatmentplans.Duration(strings.Repeat("x", 300))}},
			},
		})
		return err
	}, []string{"practitioner_id", "recommendations[1].units_to_purchase", "recommendations[1].variant_id", "recommendations[2].dosage.duration", "state"}},
	"plan update": {func(ctx context.Context, f *calltest.Fixture) error {
		_, err := f.Client.TreatmentPlans.Update(ctx, f.Plan, treatmentplans.PlanUpdate{
			Recommendations: []treatmentplans.Recommendation{}, PersonalMessage: dispensary.Value("\x00"),
		})
		return err
	}, []string{"personal_message", "recommendations"}},
	"plan in a wrong state": {func(ctx context.Context, f *calltest.Fixture) error {
		_, err := f.Client.TreatmentPlans.Activate(ctx, f.Plan)
		return err
	}, []string{""}},
	"dynamic link": {func(ctx context.Context, f *calltest.Fixture) error {
		_, err := f.Client.TreatmentPlans.DynamicLinks.Create(ctx, treatmentplans.DynamicLinkCreate{
			PractitionerID: "none", Patient: &treatmentplans.DynamicLinkPatient{Email: "no address", Gender: "other"},
		})
		return err
	}, []string{"patient.email", "patient.gender", "treatment_plan.practitioner_id"}},
	"sort order": {func(ctx context.Context, f *calltest.Fixture) error {
		_, err := f.Client.Clinic.Orders.List(clinic.OrderListOptions{SortBy: "odd"}).Page(ctx)
		return err
	}, []string{"sort_by"}},
	"page size": {func(ctx context.Context, f *calltest.Fixture) error {
		_, err := f.Client.Catalog.Products.List().PageSize(101).Page(ctx)
		return err
	}, []string{"page[size]"}},
	"raw request": {func(ctx context.Context, f *calltest.Fixture) error {
		body := map[string]any{"email": 7, "metadata": "x", "first_name": "New", "colour": "red"}
		_, err := f.Client.Do(ctx, dispensary.RawRequest{Method: http.MethodPost, Path: "/clinic/patients", Body: body})
		return err
	}, []string{"", "colour", "email", "metadata"}}, // "" is the missing last name, which the request does not contain
}

// The messages of the platform are assigned to their fields, in every shape of its errors.
func TestRejectionsNameFields(t *testing.T) {
	t.Parallel()
	placed := map[string]*dispensary.Problem{}
	for _, shape := range []behavior.Variant{
		"error-shape=by-status", behavior.ErrorShapeText, behavior.ErrorShapeStatusAndText, behavior.ErrorShapeCodedList,
	} {
		for _, status := range []behavior.Variant{"validation-status=422", behavior.ValidationStatus400} {
			f := calltest.NewFixture(t, dispensarytest.WithBehavior(shape, status, behavior.OversizedPageRejected, behavior.UnknownFieldsRejected))
			for name, rejection := range rejections {
				err := rejection.call(t.Context(), f)
				require.ErrorIs(t, err, dispensary.ErrValidation, name)
				problem := dispensary.ProblemOf(err)
				assert.Equal(t, http.StatusUnprocessableEntity, problem.Status)
				var names []string
				for field, messages := range problem.Fields {
					names = append(names, field)
					assert.NotEmpty(t, messages)
				}
				if len(problem.Other) > 0 {
					names = append(names, "")
				}
				assert.ElementsMatch(t, rejection.fields, names, "%s, %s, %s: %v", name, shape, status, problem.Fields)
				if placed[name] == nil {
					placed[name] = problem
				}
				assert.Equal(t, placed[name], problem, "%s, %s, %s: the same problem in every shape", name, shape, status)
				assert.NotContains(t, err.Error(), "x")
			}
		}
	}
	assert.Equal(t, []string{"Email has already been taken"}, placed["every field of a patient"].Fields["email"])
}

// A problem without a relation to the input has its own status and no messages.
func TestProblemWithoutInputHasNoFields(t *testing.T) {
	t.Parallel()
	f := calltest.NewFixture(t)
	check := func(status int, err error) {
		t.Helper()
		require.Error(t, err)
		p := dispensary.ProblemOf(err)
		assert.Equal(t, status, p.Status, p.Title)
		assert.Empty(t, p.Fields)
		assert.Empty(t, p.Other)
	}
	get := func(client *dispensary.Client) error { _, err := client.Clinic.Get(t.Context()); return err }
	_, err := f.Client.Clinic.Patients.Get(t.Context(), "none")
	check(http.StatusNotFound, err)
	check(http.StatusForbidden, get(view(t, f.Client, dispensary.WithTokenSource(f.Platform.TokenSource(model.User{}, "catalog:read")))))
	anonymous, err := dispensary.New(f.Platform.Site())
	require.NoError(t, err)
	check(http.StatusServiceUnavailable, get(anonymous))
	f.Platform.Fault(model.Fault{Effect: model.EffectTooManyRequests, RetryAfter: time.Hour})
	for range 2 { // the second is not sent
		err := get(f.Client)
		check(http.StatusServiceUnavailable, err)
		assert.InDelta(t, time.Hour, dispensary.ProblemOf(err).RetryAfter, float64(time.Minute))
	}
	f = calltest.NewFixture(t)
	f.Platform.Close()
	_, err = f.Client.Clinic.Patients.Update(t.Context(), f.Patient, clinic.PatientUpdate{})
	check(http.StatusBadGateway, err)
}
