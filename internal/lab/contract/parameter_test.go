package contract_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
)

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
