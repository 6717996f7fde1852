package clienttest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

var update = flag.Bool("update", false, "rewrite the golden files")

type fixedToken struct{}

func (fixedToken) Token(context.Context) (api.AccessToken, error) {
	return api.AccessToken{Secret: dispensary.NewSecret("token"), Environment: sandboxSite().Environment}, nil
}

// mocked returns a client whose every GET request gets body as the response.
func mocked(t *testing.T, body []byte) *dispensary.Client {
	t.Helper()
	transport := httpmock.NewMockTransport()
	transport.RegisterNoResponder(func(r *http.Request) (*http.Response, error) {
		return httpmock.NewBytesResponse(http.StatusOK, body), nil
	})
	client, err := dispensary.New(sandboxSite(), dispensary.WithTokenSource(fixedToken{}),
		dispensary.WithTransport(transport))
	require.NoError(t, err)
	return client
}

// The fake responds like the current platform. testdata/responses contains responses of older
// and newer versions and observed odd forms.
func TestClientDecodesOtherVersions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	readCalls := map[string]func(*dispensary.Client) (any, error){
		"clinic.get":   func(c *dispensary.Client) (any, error) { return c.Clinic.Get(ctx) },
		"events.get":   func(c *dispensary.Client) (any, error) { return c.Events.Get(ctx, "e-1") },
		"orders.get":   func(c *dispensary.Client) (any, error) { return c.Clinic.Orders.Get(ctx, "o-1") },
		"patients.get": func(c *dispensary.Client) (any, error) { return c.Clinic.Patients.Get(ctx, "p-1") },
		"products.list": func(c *dispensary.Client) (any, error) {
			return c.Catalog.Products.List().Page(ctx)
		},
		"treatment_plans.get": func(c *dispensary.Client) (any, error) { return c.TreatmentPlans.Get(ctx, "t-1") },
	}
	files, err := filepath.Glob("../../../testdata/responses/*.json")
	require.NoError(t, err)
	var checked int
	for _, file := range files {
		if strings.HasSuffix(file, ".golden.json") {
			continue
		}
		checked++
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			parts := strings.Split(filepath.Base(file), ".")
			read := readCalls[parts[0]+"."+parts[1]]
			require.NotNil(t, read, "no call for this operation")
			response, err := os.ReadFile(file)
			require.NoError(t, err)
			decoded, err := read(mocked(t, response))
			require.NoError(t, err)
			got, err := json.MarshalIndent(decoded, "", "  ")
			require.NoError(t, err)
			compareGolden(t, strings.TrimSuffix(file, ".json")+".golden.json", append(got, '\n'))
		})
	}
	assert.NotZero(t, checked)
}

func compareGolden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got), "%s differs:\n%s", file, got)
}

// The call of each operation matches its golden files in testdata: requests contains the bodies,
// queries.txt the queries of reads with every filter and sort order, and decoded.txt the decoded
// results. Package contract verifies that the platform knows the names of the queries, and the
// fake's tests verify their effect. OAuth has no golden file, because it would contain secrets.
func TestCallsMatchGolden(t *testing.T) {
	t.Parallel()
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	var queries, decoded strings.Builder
	for _, op := range operation.All() {
		if strings.HasPrefix(op.Name, "oauth.") {
			continue
		}
		f := calltest.NewFixture(t, dispensarytest.WithInMemory(), dispensarytest.WithClock(clock))
		request, body := calltest.Request(t, f, op.Name)
		if query := request.URL.RawQuery; query != "" {
			fmt.Fprintln(&queries, op.Name, query)
		}
		if file := "../../../testdata/requests/" + op.Name + ".json"; body == nil {
			assert.NoFileExists(t, file)
		} else {
			var indented bytes.Buffer
			require.NoError(t, json.Indent(&indented, body, "", "  "))
			compareGolden(t, file, append(indented.Bytes(), '\n'))
		}
		result, err := calltest.All(t)[op.Name](t.Context(), f)
		require.NoError(t, err)
		line, err := json.Marshal(result)
		require.NoError(t, err)
		fmt.Fprintf(&decoded, "%s %s\n", op.Name, line)
	}
	compareGolden(t, "../../../testdata/queries.txt", []byte(queries.String()))
	compareGolden(t, "../../../testdata/decoded.txt", []byte(decoded.String()))
}

// A body contains only the fields that the caller sets. Null and zero count as set.
func TestRequestBodiesOmitUnsetFields(t *testing.T) {
	t.Parallel()
	s := calltest.NewFixture(t, dispensarytest.WithTuning(dispensarytest.Tuning{Bodies: true}))
	ctx, care, plans := t.Context(), s.Client.Clinic, s.Client.TreatmentPlans
	sends := func(want string) func(_ any, err error) {
		return func(_ any, err error) {
			t.Helper()
			require.NotErrorIs(t, err, api.ErrNotSent)
			requests := s.Platform.Journal.Requests()
			assert.JSONEq(t, want, string(requests[len(requests)-1].RequestBody))
		}
	}
	sends(`{"email":"l@example.com","first_name":"L","last_name":"E"}`)(care.Patients.Create(ctx, clinic.PatientCreate{Email: "l@example.com", FirstName: "L", LastName: "E"}))
	sends(`{}`)(care.Patients.Update(ctx, s.Patient, clinic.PatientUpdate{}))
	sends(`{"date_of_birth":"1999-12-31","gender":null,"mobile_number":null,"discount":0,"metadata":null}`)(care.Patients.Update(ctx, s.Patient, clinic.PatientUpdate{
		DateOfBirth: api.Value(api.Date{Year: 1999, Month: 12, Day: 31}), Gender: api.Null[clinic.Gender](), MobileNumber: api.Null[string](),
		Discount: api.Value[float64](0), Metadata: api.Null[clinic.Metadata](),
	}))
	sends(`{"metadata":{"id":null}}`)(care.Patients.Update(ctx, s.Patient, clinic.PatientUpdate{Metadata: api.Value(clinic.Metadata{})}))
	sends(`{"practitioner_type_id":"` + s.PractitionerType + `","email":"p@example.com","first_name":"P","last_name":"E"}`)(care.Practitioners.Create(ctx,
		clinic.PractitionerCreate{PractitionerTypeID: s.PractitionerType, Email: "p@example.com", FirstName: "P", LastName: "E"}))
	sends(`{}`)(care.Practitioners.Update(ctx, s.Practitioner, clinic.PractitionerUpdate{}))
	sends(`{"email":"s@example.com","first_name":"S","last_name":"E"}`)(care.Staff.Create(ctx, clinic.StaffMemberCreate{Email: "s@example.com", FirstName: "S", LastName: "E"}))
	sends(`{}`)(care.Staff.Update(ctx, s.Staff, clinic.StaffMemberUpdate{}))

	lines := []treatmentplans.Recommendation{{VariantID: s.Variant, UnitsToPurchase: 2, Dosage: treatmentplans.Dosage{AdditionalInfo: "before bed"}}, {VariantID: s.Variant, UnitsToPurchase: 1}}
	sent := `"recommendations":[{"variant_id":"` + s.Variant + `","refill":false,"units_to_purchase":2,"dosage":{"additional_info":"before bed"}},
		{"variant_id":"` + s.Variant + `","refill":false,"units_to_purchase":1}]`
	practitioner := `"practitioner_id":"` + s.Practitioner + `"`
	sends(`{` + practitioner + `,` + sent + `}`)(plans.Create(ctx, s.Patient, treatmentplans.PlanCreate{PractitionerID: s.Practitioner, Recommendations: lines}))
	sends(`{` + sent + `}`)(plans.Update(ctx, s.Plan, treatmentplans.PlanUpdate{Recommendations: lines}))
	sends(`{"personal_message":null,` + sent + `}`)(plans.Update(ctx, s.Plan, treatmentplans.PlanUpdate{PersonalMessage: api.Null[string](), Recommendations: lines}))
	sends(`{"treatment_plan":{` + practitioner + `}}`)(plans.DynamicLinks.Create(ctx, treatmentplans.DynamicLinkCreate{PractitionerID: s.Practitioner}))
	sends(`{"treatment_plan":{},"patient":{"email":"l@example.com"}}`)(plans.DynamicLinks.Create(ctx, treatmentplans.DynamicLinkCreate{Patient: &treatmentplans.DynamicLinkPatient{Email: "l@example.com"}}))
}

func TestNilRequestOptionChangesNothing(t *testing.T) {
	t.Parallel()
	platform := dispensarytest.New(t, dispensarytest.WithInMemory())
	client := platform.Client(model.User{})
	_, err := client.Clinic.Get(t.Context(), nil)
	require.NoError(t, err)
	_, _, err = client.Clinic.Patients.Ensure(t.Context(), clinic.PatientCreate{
		FirstName: "Kim", LastName: "Doe", Email: "kim@example.org", Metadata: clinic.Metadata{ID: "ehr-1"},
	}, nil)
	require.NoError(t, err)
	for _, err := range client.Clinic.Patients.List(nil).All(t.Context()) {
		require.NoError(t, err)
	}
}
