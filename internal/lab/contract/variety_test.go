package contract_test

import (
	"encoding/json"
	"maps"
	"net/http"
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
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/lab/contract"
)

// variety is a successful call with another form than the call of the exercise.
type variety struct {
	name, operation string
	status          int
	request         func(s *fixture) request
}

// linked creates a link without a patient and returns the ID of its draft.
func linked(s *fixture) string {
	s.t.Helper()
	link := s.value("dynamic_links.create", request{body: map[string]any{
		"treatment_plan": map[string]any{"practitioner_id": s.practitioner()},
	}}).(map[string]any)
	return link["treatment_plan"].(map[string]any)["id"].(string)
}

// unplanned creates a refunded order without a plan and returns its ID.
func unplanned(s *fixture) string {
	order, _, err := s.fake.Orders.Place(s.patient(), model.OrderCreate{})
	require.NoError(s.t, err)
	_, err = s.fake.Orders.Refund(order.ID, 0)
	require.NoError(s.t, err)
	return order.ID
}

// bare creates a product without a description and returns its ID.
func bare(s *fixture) string {
	product, _, err := s.fake.Products.Create(model.ProductCreate{Variants: []model.VariantCreate{{}, {Units: 120, Status: "vendor backorder"}}})
	require.NoError(s.t, err)
	return product.ID
}

// outside creates a draft plan outside the API and returns its ID.
func outside(s *fixture) string {
	plan, _, err := s.fake.Plans.Create(s.patient(), model.PlanCreate{Draft: true})
	require.NoError(s.t, err)
	return plan.ID
}

func marked(kind, id string) func(*fixture) request {
	return func(s *fixture) request {
		s.value("practitioners.update", request{path: []string{s.practitioner()}, body: map[string]any{"metadata": map[string]any{"id": "doc-1"}}})
		s.value("staff.update", request{path: []string{staff(s)}, body: map[string]any{"metadata": map[string]any{"id": "desk-1"}}})
		s.plan("draft")
		r := request{query: query("id", id)}
		if kind != "" {
			r.query.Set("type", kind)
		}
		return r
	}
}

var varieties = []variety{
	{"without optional fields", "patients.create", 201, having(func(*fixture) map[string]any {
		return map[string]any{"email": "min@example.org", "first_name": "Min", "last_name": "Imal"}
	})},
	{"with nulls", "patients.create", 201, having(func(*fixture) map[string]any {
		return map[string]any{"email": "min@example.org", "first_name": "Min", "last_name": "Imal", "date_of_birth": nil, "gender": nil, "mobile_number": nil}
	})},
	{"clearing", "patients.update", 200, having(func(*fixture) map[string]any {
		return map[string]any{"date_of_birth": nil, "gender": nil, "mobile_number": nil, "discount": 0, "metadata": map[string]any{"id": nil}}
	}, (*fixture).patient)},
	{"clearing with null", "patients.update", 200, having(func(*fixture) map[string]any {
		return map[string]any{"discount": nil, "metadata": nil}
	}, (*fixture).patient)},
	{"clearing metadata with null", "practitioners.update", 200, having(func(*fixture) map[string]any {
		return map[string]any{"metadata": nil}
	}, (*fixture).practitioner)},
	{"clearing metadata with null", "staff.update", 200, having(func(*fixture) map[string]any { return map[string]any{"metadata": nil} }, staff)},
	{"clearing metadata with null", "treatment_plans.update", 200, having(func(s *fixture) map[string]any {
		return map[string]any{"metadata": nil, "recommendations": []any{map[string]any{"variant_id": s.variant(), "units_to_purchase": 1}}}
	}, draft)},
	{"without fields", "patients.update", 200, having(func(*fixture) map[string]any { return map[string]any{} }, (*fixture).patient)},
	{"with its own id", "practitioners.update", 200, having(func(s *fixture) map[string]any {
		return map[string]any{"practitioner_id": s.practitioner(), "first_name": "New"}
	}, (*fixture).practitioner)},
	{"without dosage", "treatment_plans.create", 201, having(func(s *fixture) map[string]any {
		return map[string]any{"practitioner_id": s.practitioner(), "recommendations": []any{map[string]any{"variant_id": s.variant(), "units_to_purchase": 1}}}
	}, (*fixture).patient)},
	{"of a draft", "treatment_plans.get", 200, at(draft)},
	{"of a canceled plan", "treatment_plans.get", 200, at(cancelled)},
	{"without patient", "treatment_plans.get", 200, at(linked)},
	{"created outside the API", "treatment_plans.get", 200, at(outside)},
	{"to a draft without patient", "dynamic_links.get", 200, at(linked)},
	{"for a new patient", "dynamic_links.create", 200, having(func(s *fixture) map[string]any {
		return map[string]any{"treatment_plan": map[string]any{"practitioner_id": s.practitioner()}, "patient": map[string]any{
			"email": "link@example.org", "first_name": "Lin", "last_name": "Ked", "date_of_birth": "2001-01-01", "gender": "x",
			"mobile_number": "+15035550143", "discount": 5, "send_welcome_email": false,
		}}
	})},
	{"without plan, refunded", "orders.get", 200, at(unplanned)},
	{"without plan", "orders.list", 200, func(s *fixture) request { unplanned(s); return request{query: query("page[size]", "100")} }},
	{"without plan", "orders.list_for_patient", 200, func(s *fixture) request { unplanned(s); return request{path: []string{s.patient()}} }},
	{"without description", "products.get", 200, at(bare)},
	{"found by staff", "metadata.list", 200, marked("staff", "desk-1")},
	{"found by practitioner", "metadata.list", 200, marked("practitioner", "doc-1")},
	{"found by plan", "metadata.list", 200, marked("treatment_plan", "plan-7")},
	{"found by any type", "metadata.list", 200, marked("", "plan-7")},
	{"found by none", "metadata.list", 200, marked("patient", "nobody")},
	{"beyond the last page", "patients.list", 200, func(*fixture) request { return request{query: query("page[number]", "99")} }},
	{"between pages", "products.list", 200, func(*fixture) request { return request{query: query("page[number]", "2", "page[size]", "5")} }},
	{"with custom dosage", "products.get", 200, func(s *fixture) request {
		return request{path: []string{s.fake.Products.All()[2].ID}, query: query("practitioner_id", s.practitioner())}
	}},
	{"with shared protocols", "protocols.list", 200, func(s *fixture) request {
		return request{path: []string{s.practitioner()}, query: query("ownership_type", "all", "sort_by", "name")}
	}},
}

func TestVarietiesSucceed(t *testing.T) {
	t.Parallel()
	for _, v := range varieties {
		t.Run(v.operation+" "+v.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			r := v.request(s)
			r.token = s.token
			s.accepted(v.operation, v.status, s.send(v.operation, r))
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
			for _, patient := range s.fake.Patients.All() {
				s.walk("treatment_plans.list", "treatment_plans.get", patient.ID)
				s.walk("addresses.list", "", patient.ID)
				s.walk("orders.list_for_patient", "", patient.ID)
			}
			for _, practitioner := range s.fake.Practitioners.All() {
				s.walk("protocols.list", "protocols.get", practitioner.ID)
				s.walk("templates.list", "templates.get", practitioner.ID)
			}
			for _, product := range s.fake.Products.All() {
				s.walk("products.similar", "", product.ID)
				for _, variant := range product.VariantIDs {
					s.accepted("variants.get", 200, s.send("variants.get", request{path: []string{variant}, token: s.token}))
				}
			}
		})
	}
}

// walk checks a list and its items.
func (s *fixture) walk(list, single string, path ...string) {
	s.t.Helper()
	e := s.send(list, request{path: path, query: query("page[size]", "100"), token: s.token})
	s.accepted(list, http.StatusOK, e)
	if single == "" {
		return
	}
	var body map[string]json.RawMessage
	require.NoError(s.t, json.Unmarshal(e.ResponseBody, &body))
	var items []struct{ ID string }
	require.NoError(s.t, json.Unmarshal(body[s.rows[list].Key], &items))
	for _, item := range items {
		s.accepted(single, http.StatusOK, s.send(single, request{path: []string{item.ID}, token: s.token}))
	}
}

// breaches returns the wrong requests of an operation that follow from the document: from its
// scopes, path, parameters and body.
func breaches(name string, row contract.Row, op *openapi3.Operation, scopes []string) []rejection {
	var all []rejection
	if row.Scopes != "" {
		all = append(all, tokenBreaches(scopes)...)
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

func tokenBreaches(scopes []string) []rejection {
	all := []rejection{
		{"no token", 401, func(_ *fixture, r *request) { r.token = "" }},
		{"unknown token", 401, func(_ *fixture, r *request) { r.token = "unknown" }},
		{"expired token", 401, func(s *fixture, r *request) {
			if err := s.fake.Tokens.Expire(r.token); err != nil {
				s.t.Error(err)
			}
		}},
		{"invalidated token", 401, func(s *fixture, _ *request) { s.fake.Tokens.InvalidateAll() }},
	}
	for _, scope := range scopes {
		all = append(all, rejection{"no " + scope, 403, func(s *fixture, r *request) {
			r.token = s.tokenWith(slices.DeleteFunc(s.fake.Application().Scopes, func(have string) bool { return have == scope })...)
		}})
	}
	return all
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
		all = append(all, rejection{"wrong " + name, rejected, field(name, fixed(wrongValue(property.Value)))})
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
var known = map[string]func(*fixture) string{"practitioner_id": (*fixture).practitioner}

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
	for _, name := range exercised() {
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
			s.accepted(name, http.StatusOK, s.send(name, r))
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
		s.accepted("orders.list", 200, s.send("orders.list", request{query: query("completed_at", day), token: s.token}))
		s.accepted("events.list_orders", 200, s.send("events.list_orders", request{query: query("created_at", day), token: s.token}))
		s.accepted("webhook_deliveries.list", 200, s.send("webhook_deliveries.list", request{query: query("attempted_at", day), token: s.token}))
	}
	s.accepted("orders.list", 200, s.send("orders.list", request{query: query("sort_by", "order_number", "order_by", "DESC"), token: s.token}))
	s.accepted("products.search", 200, s.send("products.search", request{
		query: query("allergen_ids[]", "a", "allergen_ids[]", "b"), token: s.token,
	}))
	s.accepted("products.list", 200, s.send("products.list", request{query: query("page[number]", "9", "page[size]", "100"), token: s.token}))
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
	known := slices.Collect(maps.Keys(exercises))
	for name, op := range loaded(t).Rows() {
		assert.Contains(t, rows[name], "`"+op.Method+" "+op.Route+"`", name)
		if op.Scopes != "" && exercises[name].scopes == nil { // the same for every request
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
