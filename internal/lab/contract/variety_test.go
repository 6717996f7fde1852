package contract_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
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
