package contract_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/lab/contract"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// variety is a successful call with another form than the client's call of its operation.
type variety struct {
	name, operation string
	request         func(s *fixture) request
}

// linked creates a link without a patient and returns the ID of its draft.
func linked(s *fixture) string {
	link, err := s.Client.TreatmentPlans.DynamicLinks.Create(s.t.Context(), treatmentplans.DynamicLinkCreate{PractitionerID: s.Practitioner})
	require.NoError(s.t, err)
	return link.TreatmentPlan.ID
}

// unplanned creates a refunded order without a plan and returns its ID.
func unplanned(s *fixture) string {
	order, _, err := s.Platform.Orders.Place(s.Patient, model.OrderCreate{})
	require.NoError(s.t, err)
	_, err = s.Platform.Orders.Refund(order.ID, 0)
	require.NoError(s.t, err)
	return order.ID
}

// bare creates a product without a description and returns its ID.
func bare(s *fixture) string {
	product, _, err := s.Platform.Products.Create(model.ProductCreate{Variants: []model.VariantCreate{{}, {Units: 120, Status: "vendor backorder"}}})
	require.NoError(s.t, err)
	return product.ID
}

// outside creates a draft plan outside the API and returns its ID.
func outside(s *fixture) string {
	plan, _, err := s.Platform.Plans.Create(s.Patient, model.PlanCreate{Draft: true})
	require.NoError(s.t, err)
	return plan.ID
}

// marked returns a search of metadata. A practitioner, a staff member and a plan have metadata.
func marked(kind, id string) func(*fixture) request {
	return func(s *fixture) request {
		ctx, metadata := s.t.Context(), func(id string) api.Optional[clinic.Metadata] { return api.Value(clinic.Metadata{ID: id}) }
		_, err := s.Client.Clinic.Practitioners.Update(ctx, s.Practitioner, clinic.PractitionerUpdate{Metadata: metadata("doc-1")})
		require.NoError(s.t, err)
		_, err = s.Client.Clinic.Staff.Update(ctx, s.Staff, clinic.StaffMemberUpdate{Metadata: metadata("desk-1")})
		require.NoError(s.t, err)
		_, err = s.Client.TreatmentPlans.Update(ctx, s.Draft, treatmentplans.PlanUpdate{Recommendations: s.Recommendations(), Metadata: metadata("plan-7")})
		require.NoError(s.t, err)
		r := request{query: query("id", id)}
		if kind != "" {
			r.query.Set("type", kind)
		}
		return r
	}
}

var varieties = []variety{
	{"without optional fields", "patients.create", having(func(*fixture) map[string]any {
		return map[string]any{"email": "min@example.org", "first_name": "Min", "last_name": "Imal"}
	})},
	{"with nulls", "patients.create", having(func(*fixture) map[string]any {
		return map[string]any{"email": "min@example.org", "first_name": "Min", "last_name": "Imal", "date_of_birth": nil, "gender": nil, "mobile_number": nil}
	})},
	{"clearing", "patients.update", having(func(*fixture) map[string]any {
		return map[string]any{"date_of_birth": nil, "gender": nil, "mobile_number": nil, "discount": 0, "metadata": map[string]any{"id": nil}}
	}, patient)},
	{"clearing with null", "patients.update", having(func(*fixture) map[string]any {
		return map[string]any{"discount": nil, "metadata": nil}
	}, patient)},
	{"clearing metadata with null", "practitioners.update", having(func(*fixture) map[string]any {
		return map[string]any{"metadata": nil}
	}, practitioner)},
	{"clearing metadata with null", "staff.update", having(func(*fixture) map[string]any { return map[string]any{"metadata": nil} }, staff)},
	{"clearing metadata with null", "treatment_plans.update", having(func(s *fixture) map[string]any {
		return map[string]any{"metadata": nil, "recommendations": []any{map[string]any{"variant_id": s.Variant, "units_to_purchase": 1}}}
	}, draft)},
	{"without fields", "patients.update", having(func(*fixture) map[string]any { return map[string]any{} }, patient)},
	{"with its own id", "practitioners.update", having(func(s *fixture) map[string]any {
		return map[string]any{"practitioner_id": s.Practitioner, "first_name": "New"}
	}, practitioner)},
	{"with texts for scalars", "treatment_plans.create", having(func(s *fixture) map[string]any {
		return map[string]any{"practitioner_id": s.Practitioner, "state": "active", "metadata": map[string]any{"id": nil}, "recommendations": []any{
			map[string]any{
				"variant_id": s.Variant, "refill": true, "units_to_purchase": 2,
				"dosage": map[string]any{"amount": "1-2", "frequency": "twice per day", "duration": nil, "format": "capsule", "additional_info": "With food."},
			},
			map[string]any{"variant_id": s.Variant, "refill": "false", "units_to_purchase": "10"},
		}}
	}, patient)},
	{"without dosage", "treatment_plans.create", having(func(s *fixture) map[string]any {
		return map[string]any{"practitioner_id": s.Practitioner, "recommendations": []any{map[string]any{"variant_id": s.Variant, "units_to_purchase": 1}}}
	}, patient)},
	{"of a draft", "treatment_plans.get", at(draft)},
	{"of a canceled plan", "treatment_plans.get", at(canceled)},
	{"without patient", "treatment_plans.get", at(linked)},
	{"created outside the API", "treatment_plans.get", at(outside)},
	{"to a draft without patient", "dynamic_links.get", at(linked)},
	{"for a known patient", "dynamic_links.create", func(s *fixture) request {
		return request{token: s.tokenWith("clinic:write"), body: map[string]any{
			"treatment_plan": map[string]any{"practitioner_id": s.Practitioner}, "patient": map[string]any{"email": s.Platform.Patients.All()[0].Email},
		}}
	}},
	{"with a clinic key", "clinic.get", func(s *fixture) request { return request{key: s.Platform.ClinicKey()} }},
	{"refreshing", "oauth.token", having(refreshGrant)},
	{"without plan, refunded", "orders.get", at(unplanned)},
	{"without plan", "orders.list", func(s *fixture) request { unplanned(s); return request{query: query("page[size]", "100")} }},
	{"without plan", "orders.list_for_patient", func(s *fixture) request { unplanned(s); return request{path: []string{s.Patient}} }},
	{"without description", "products.get", at(bare)},
	{"found by staff", "metadata.list", marked("staff", "desk-1")},
	{"found by practitioner", "metadata.list", marked("practitioner", "doc-1")},
	{"found by plan", "metadata.list", marked("treatment_plan", "plan-7")},
	{"found by any type", "metadata.list", marked("", "plan-7")},
	{"found by none", "metadata.list", marked("patient", "nobody")},
	{"beyond the last page", "patients.list", func(*fixture) request { return request{query: query("page[number]", "99")} }},
	{"between pages", "products.list", func(*fixture) request { return request{query: query("page[number]", "2", "page[size]", "5")} }},
	{"with custom dosage", "products.get", func(s *fixture) request {
		return request{path: []string{s.Platform.Products.All()[2].ID}, query: query("practitioner_id", s.Practitioner)}
	}},
	{"with shared protocols", "protocols.list", func(s *fixture) request {
		return request{path: []string{s.Practitioner}, query: query("ownership_type", "all", "sort_by", "name")}
	}},
}

func TestVarietiesSucceed(t *testing.T) {
	t.Parallel()
	for _, v := range varieties {
		t.Run(v.operation+" "+v.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			r := v.request(s)
			r.token = cmp.Or(r.token, s.token)
			s.accepted(v.operation, s.send(v.operation, r))
		})
	}
}

// All lists of the default world and their items follow the contract, in both countries.
func TestDefaultWorldFollowsContract(t *testing.T) {
	t.Parallel()
	for _, environment := range []api.Environment{api.USSandbox, api.CanadaSandbox} {
		t.Run(environment.String(), func(t *testing.T) {
			t.Parallel()
			s := start(t, dispensarytest.WithEnvironment(environment))
			for list, single := range map[string]string{
				"allergens.list": "allergens.get", "brands.list": "brands.get", "ingredients.list": "ingredients.get", "products.list": "products.get",
				"supplement_types.list": "supplement_types.get", "third_party_certifications.list": "third_party_certifications.get",
				"categories.list": "categories.get", "patients.list": "patients.get", "practitioners.list": "practitioners.get", "staff.list": "staff.get",
				"orders.list": "orders.get", "practitioner_types.list": "",
			} {
				s.walk(list, single)
			}
			for _, patient := range s.Platform.Patients.All() {
				s.walk("treatment_plans.list", "treatment_plans.get", patient.ID)
				s.walk("addresses.list", "", patient.ID)
				s.walk("orders.list_for_patient", "", patient.ID)
			}
			for _, practitioner := range s.Platform.Practitioners.All() {
				s.walk("protocols.list", "protocols.get", practitioner.ID)
				s.walk("templates.list", "templates.get", practitioner.ID)
			}
			for _, product := range s.Platform.Products.All() {
				s.walk("products.similar", "", product.ID)
				for _, variant := range product.VariantIDs {
					s.accepted("variants.get", s.send("variants.get", request{path: []string{variant}, token: s.token}))
				}
			}
		})
	}
}

// walk checks a list and its items.
func (s *fixture) walk(list, single string, path ...string) {
	s.t.Helper()
	e := s.send(list, request{path: path, query: query("page[size]", "100"), token: s.token})
	s.accepted(list, e)
	if single == "" {
		return
	}
	var body map[string]json.RawMessage
	require.NoError(s.t, json.Unmarshal(e.ResponseBody, &body))
	var items []struct{ ID string }
	require.NoError(s.t, json.Unmarshal(body[s.rows[list].Key], &items))
	for _, item := range items {
		s.accepted(single, s.send(single, request{path: []string{item.ID}, token: s.token}))
	}
}

// breaches returns the wrong requests of an operation that follow from the document: from its
// scopes, path, parameters and body.
func breaches(name string, row contract.Row, op *openapi3.Operation) []rejection {
	var all []rejection
	if row.Scopes != "" {
		all = append(all, tokenBreaches...)
		all = append(all, rejection{"malformed query", 400, func(_ *fixture, r *request) { r.query, r.rawQuery = nil, "query=%zz" }})
	}
	if strings.Contains(row.Route, "{") {
		all = append(all, rejection{"unknown id", 404, func(_ *fixture, r *request) { r.path[0] = "00000000-unknown" }})
	}
	for _, ref := range op.Parameters {
		if wrong, has := wrongParameter(ref.Value); has && row.Scopes != "" {
			all = append(all, rejection{"wrong " + ref.Value.Name, 422, func(_ *fixture, r *request) {
				r.query = query(ref.Value.Name, wrong)
			}})
		}
	}
	if op.RequestBody != nil && row.Scopes != "" {
		all = append(all, bodyBreaches(name, op.RequestBody.Value.Content.Get("application/json").Schema.Value)...)
	}
	return all
}

var tokenBreaches = []rejection{
	{"no token", 401, func(_ *fixture, r *request) { r.token = "" }},
	{"unknown token", 401, func(_ *fixture, r *request) { r.token = "unknown" }},
	{"expired token", 401, func(s *fixture, r *request) { require.NoError(s.t, s.Platform.Tokens.Expire(r.token)) }},
	{"invalidated token", 401, func(s *fixture, _ *request) { s.Platform.Tokens.InvalidateAll() }},
}

// wrongParameter returns an invalid value of a query parameter, or false if every text is valid.
func wrongParameter(p *openapi3.Parameter) (string, bool) {
	schema := p.Schema.Value
	switch {
	case p.In != openapi3.ParameterInQuery:
		return "", false
	case schema.Type.Is("integer"):
		return "0", true
	case schema.Type.Is("boolean"), len(schema.Enum) > 0, schema.Pattern != "":
		return "neither", true
	default:
		return "", false
	}
}

// tooLarge is a request with a body of more than 1 MiB.
var tooLarge = rejection{"too large", 413, sent("{}" + strings.Repeat(" ", 1<<20))}

// missing contains the status of an operation for a body without a required field. The default is
// 422.
var missing = map[string]int{"dynamic_links.create": 400}

func bodyBreaches(operation string, schema *openapi3.Schema) []rejection {
	all := []rejection{
		{"no JSON", 400, sent("{")},
		{"no object", 400, sent("[]")},
		{"null", 400, sent("null")},
		{"two objects", 400, sent("{} {}")},
		tooLarge,
	}
	status := 422
	if other, is := missing[operation]; is {
		status = other
	}
	if len(schema.Required) > 0 {
		all = append(all,
			rejection{"no body", status, sent(nil)},
			rejection{"empty body", status, sent(map[string]any{})})
	}
	for name, property := range schema.Properties {
		rejected := 422
		if slices.Contains(schema.Required, name) {
			rejected = status
		}
		all = append(all, rejection{"wrong " + name, rejected, field(name, wrongValue(property.Value))})
	}
	return all
}

// wrongValue returns a value of another type than the field.
func wrongValue(schema *openapi3.Schema) any {
	if schema.Type.Includes("string") {
		return 42
	}
	return "neither"
}

// known contains the values of parameters that must name an existing record.
var known = map[string]func(*fixture) string{"practitioner_id": practitioner}

// plausible returns a valid value of a query parameter.
func (s *fixture) plausible(p *openapi3.Parameter) string {
	schema := p.Schema.Value
	switch {
	case known[p.Name] != nil:
		return known[p.Name](s)
	case len(schema.Enum) > 0:
		return schema.Enum[0].(string)
	case len(schema.Examples) > 0:
		return schema.Examples[0].(string)
	case schema.Type.Is("integer"):
		return "1"
	case schema.Type.Is("boolean"):
		return "true"
	default:
		return "some text"
	}
}

// The fake platform knows every documented parameter and accepts its values.
func TestFakeKnowsEveryParameter(t *testing.T) {
	t.Parallel()
	for name := range loaded(t).Rows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			op := s.described(name)
			if name == "oauth.authorize" {
				return // the page does not read single parameters
			}
			r := s.prepared(name)
			r.query = url.Values{}
			for _, ref := range op.Parameters {
				if ref.Value.In == openapi3.ParameterInQuery {
					r.query.Set(ref.Value.Name, s.plausible(ref.Value))
				}
			}
			if len(r.query) == 0 {
				return
			}
			if name == "metadata.list" {
				r.token = s.token // the requested type needs another scope
			}
			s.accepted(name, s.send(name, r))
			last := s.lastRequest()
			assert.Empty(t, last.Unknown, "documented parameters unknown to the fake")
		})
	}
}

// Date filters have four forms, and sorting has two directions.
func TestFiltersAcceptAllForms(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, day := range []string{"2026-03-02", "<2026-03-02", ">2026-03-02", "2026-03-01..2026-03-31"} {
		s.accepted("orders.list", s.send("orders.list", request{query: query("completed_at", day), token: s.token}))
		s.accepted("events.list_orders", s.send("events.list_orders", request{query: query("created_at", day), token: s.token}))
		s.accepted("webhook_deliveries.list", s.send("webhook_deliveries.list", request{query: query("attempted_at", day), token: s.token}))
	}
	s.accepted("orders.list", s.send("orders.list", request{query: query("sort_by", "order_number", "order_by", "DESC"), token: s.token}))
	s.accepted("products.search", s.send("products.search", request{
		query: query("allergen_ids[]", "a", "allergen_ids[]", "b"), token: s.token,
	}))
	s.accepted("products.list", s.send("products.list", request{query: query("page[number]", "9", "page[size]", "100"), token: s.token}))
}

// The tables of docs/platform.md list exactly the operations, behaviors and faults of the
// platform.
func TestPlatformPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/platform.md")
	require.NoError(t, err)
	var listed []string
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|(.*)$").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, row[1])
		rows[row[1]] = strings.ReplaceAll(row[2], `\|`, "|")
	}
	known := slices.Collect(maps.Keys(loaded(t).Rows()))
	for name, op := range loaded(t).Rows() {
		assert.Contains(t, rows[name], "`"+op.Method+" "+op.Route+"`", name)
		if op.Scopes != "" && !slices.Contains([]string{"events.get", "metadata.list"}, name) { // the same for every request
			assert.Contains(t, rows[name], "`"+strings.ReplaceAll(op.Scopes, " ", "` `")+"`", name)
		}
	}
	for _, choice := range behavior.Choices() {
		known = append(known, choice.Name)
		assert.Contains(t, rows[choice.Name], choice.Section+" | "+choice.Why, choice.Name)
		assert.Contains(t, rows[choice.Name], "**`"+choice.Variants[0].Name()+"`**", choice.Name)
		for _, variant := range choice.Variants {
			assert.Contains(t, rows[choice.Name], "`"+variant.Name()+"`", choice.Name)
			assert.Contains(t, rows[choice.Name], ": "+variant.Meaning(), choice.Name)
		}
	}
	for _, effect := range model.Effects() {
		known = append(known, string(effect))
		assert.NotRegexp(t, "`[A-Z]", rows[string(effect)], "%s: the intro has the rule for Go names", effect)
	}
	assert.ElementsMatch(t, known, listed)
}
