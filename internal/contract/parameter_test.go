package contract_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/contract"
)

// known are parameters that have to name something that exists.
var known = map[string]func(*fixture) string{"practitioner_id": (*fixture).practitioner}

// plausible is a value of a query parameter.
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

// Every parameter of the document is one that the fake knows, and none of its values is
// refused.
func TestTheFakeKnowsEveryParameter(t *testing.T) {
	t.Parallel()
	for _, name := range exercised() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			op := s.described(name)
			if name == "oauth.authorize" {
				return // its page does not read the parameters one by one
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
				r.token = s.token // the type that is asked for has another scope
			}
			s.accepted(name, http.StatusOK, s.send(name, r))
			last, _ := s.fake.Journal().Last()
			assert.Empty(t, last.Unknown, "the fake does not know parameters of the document")
		})
	}
}

// Date filters have four forms, and sorting two directions.
func TestFormsOfFilters(t *testing.T) {
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

// Both the contract and the fake's journal report what a client misspells, with the
// place and without the value.
func TestMisspeltRequestsAreReported(t *testing.T) {
	t.Parallel()
	s := start(t)
	recorder := &contract.Recorder{Base: s.fake.HTTPClient().Transport}
	client := &http.Client{Transport: recorder}
	call := func(method, target, body string) {
		req, err := http.NewRequest(method, s.fake.BaseURL()+target, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.token)
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	call(http.MethodGet, "/clinic/patients?page%5Bsise%5D="+canary, "")
	call(http.MethodPatch, "/clinic/patients/"+s.patient(), `{"last_name":"Doe","frist_name":"`+canary+`","metadata":{"ident":"`+canary+`"}}`)

	var found []contract.Violation
	for _, e := range recorder.Exchanges() {
		operation, known := s.check.Identify(e.Request)
		require.True(t, known)
		assert.Equal(t, 200, e.Response.StatusCode)
		found = append(found, s.check.CheckExchange(operation, e.Request, e.RequestBody, e.Response, e.ResponseBody)...)
	}
	assert.Equal(t, "patients.list: request query page[sise]: unknown\n"+
		"patients.update: request body /frist_name: unknown\n"+
		"patients.update: request body /metadata/ident: unknown", text(found))

	journal := s.fake.Journal().Requests()
	require.Len(t, journal, 2)
	assert.Equal(t, "page[sise]", journal[0].Unknown[0].Name)
	assert.Equal(t, "frist_name", journal[1].Unread[0].Name)
}
