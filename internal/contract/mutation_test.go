package contract_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/contract"
)

// canary stands for whatever a violation must not print.
const canary = "canary-4711"

// optional are the keys that the contract shows in some answers only.
var optional = map[string]bool{
	"custom_dosage": true, "description_html": true, // of products
	"clinic_id": true, "integration_id": true, // of events
}

// mutation is a body with one thing wrong, and where.
type mutation struct {
	what string
	at   string
	body any
}

// mutations takes a body apart: each key is left out, each object gets one more, each
// value becomes one of a type that no field of the API has.
func mutations(body any) []mutation {
	all := []mutation{}
	var walk func(value any, at string, set func(any) any)
	walk = func(value any, at string, set func(any) any) {
		all = append(all, mutation{"another type", at, set([]any{[]any{canary}})})
		switch value := value.(type) {
		case map[string]any:
			all = append(all, mutation{"one key more", at + "/" + "x_unknown", set(with(value, "x_unknown", canary))})
			for _, key := range slices.Sorted(maps.Keys(value)) {
				if !optional[key] {
					all = append(all, mutation{"one key less", at + "/" + key, set(without(value, key))})
				}
				walk(value[key], at+"/"+key, func(v any) any { return set(with(value, key, v)) })
			}
		case []any:
			if len(value) > 0 {
				walk(value[0], at+"/0", func(v any) any {
					return set(append([]any{v}, value[1:]...))
				})
			}
		}
	}
	walk(body, "", func(v any) any { return v })
	return all
}

func with(object map[string]any, key string, value any) map[string]any {
	changed := maps.Clone(object)
	changed[key] = value
	return changed
}

func without(object map[string]any, key string) map[string]any {
	changed := maps.Clone(object)
	delete(changed, key)
	return changed
}

// Whatever is wrong with an answer is reported: a validator that accepts everything would
// accept the fake as well. No report shows a value.
func TestEveryMutationIsReported(t *testing.T) {
	t.Parallel()
	for _, name := range exercised() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			e := s.send(name, s.prepared(name))
			if name == "oauth.authorize" {
				return // a page for people
			}
			count := s.mutated(name, e)
			assert.GreaterOrEqual(t, count, 2)
			t.Log(strconv.Itoa(count) + " mutations")
		})
	}
}

func (s *fixture) mutated(name string, e contract.Exchange) int {
	s.t.Helper()
	var body any
	require.NoError(s.t, json.Unmarshal(e.ResponseBody, &body))
	all := mutations(body)
	for _, m := range all {
		encoded, err := json.Marshal(m.body)
		require.NoError(s.t, err)
		violations := s.check.CheckResponse(name, e.Response, encoded)
		assert.NotEmpty(s.t, violations, "%s at %q passes", m.what, m.at)
		assert.NotContains(s.t, text(violations), canary)
	}
	return len(all)
}

// Event data of every type is as closed as the answers.
func TestEveryMutationOfAnEventIsReported(t *testing.T) {
	t.Parallel()
	for eventType, ways := range happenings {
		for i, happens := range ways {
			t.Run(fmt.Sprint(eventType, " ", i+1), func(t *testing.T) {
				t.Parallel()
				if eventType == "clinic_key.activated" || eventType == "clinic_key.revoked" {
					return // the contents of their data are not documented
				}
				s := start(t)
				event, err := happens(s, s.fake)
				require.NoError(t, err)
				s.mutated("events.get", s.send("events.get", request{path: []string{event.ID}, token: s.token}))
			})
		}
	}
}

// The open document, which other people read, takes keys and parameters it does not know.
func TestOpenDocumentTakesNewKeys(t *testing.T) {
	t.Parallel()
	open, err := contract.Load(contract.Open())
	require.NoError(t, err)
	s := start(t)
	e := s.send("patients.get", request{path: []string{s.patient()}, query: query("new", "1"), token: s.token})
	var body map[string]any
	require.NoError(t, json.Unmarshal(e.ResponseBody, &body))
	body["new"], body["patient"].(map[string]any)["new"] = 1, "2"
	encoded, err := json.Marshal(body)
	require.NoError(t, err)
	assert.Empty(t, open.CheckExchange("patients.get", e.Request, nil, e.Response, encoded))
	assert.Equal(t, "patients.get: request query new: unknown\n"+
		"patients.get: response body /new: unknown\n"+
		"patients.get: response body /patient/new: unknown",
		text(s.check.CheckExchange("patients.get", e.Request, nil, e.Response, encoded)))
	delete(body["patient"].(map[string]any), "email")
	encoded, err = json.Marshal(body)
	require.NoError(t, err)
	assert.Equal(t, "patients.get: response body /patient/email: required", text(open.CheckResponse("patients.get", e.Response, encoded)))
}
