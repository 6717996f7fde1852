package transport

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

const latin1 = "Jos\xe9"

// wordy encodes itself as text.
type wordy struct{ text string }

func (w wordy) MarshalText() ([]byte, error) { return []byte(w.text), nil }

// record is a body with text in every possible place.
type record struct {
	draft
	Untagged string
	List     []string          `json:"list,omitempty"`
	Names    map[string]string `json:"names,omitempty"`
	Any      any               `json:"any,omitempty"`
	Raw      json.RawMessage   `json:"raw,omitempty"`
	Wordy    *wordy            `json:"wordy,omitempty"`
	Bytes    []byte            `json:"bytes,omitempty"`
	Hidden   string            `json:"-"`
	private  string            // encoding/json skips it
}

func TestInvalidUTF8InBodyNamesField(t *testing.T) {
	t.Parallel()
	text := latin1
	for _, test := range []struct {
		body  any
		field string
	}{
		{latin1, "body"},
		{&text, "body"},
		{[]any{1, latin1}, "[1]"},
		{json.RawMessage(`{"name":"` + latin1 + `"}`), "body"},
		{map[string]any{"a": map[string]any{"b": []any{"x", latin1}}}, "a.b[1]"},
		{map[string]any{"a": map[string]any{latin1: 1}}, "a"},
		{map[string]any{latin1: latin1}, "body"},
		{draft{Name: latin1}, "name"},
		{&draft{Tag: &tag{ID: latin1}}, "tag.tag_id"},
		{draft{Tags: []tag{{}, {ID: latin1}}}, "tags[1].tag_id"},
		{draft{Changed: api.Value(tag{ID: latin1})}, "changed.tag_id"},
		{draft{Day: api.Value(latin1)}, "day"},
		{record{draft: draft{Name: latin1}}, "name"},
		{record{Untagged: latin1}, "Untagged"},
		{record{List: []string{"x", latin1}}, "list[1]"},
		{record{Names: map[string]string{"x": latin1}}, "names.x"},
		{record{Any: &draft{Name: latin1}}, "any.name"},
		{record{Raw: json.RawMessage(`"` + latin1 + `"`)}, "raw"},
		{record{Wordy: &wordy{latin1}}, "wordy"},
	} {
		_, _, err := sent(t, Call{Operation: operation.PatientCreate, Body: test.body})
		var argument *api.ArgumentError
		if assert.ErrorAs(t, err, &argument, "%T %s", test.body, test.field) {
			assert.EqualError(t, err, "dispensary: patients.create: "+test.field+" must be valid UTF-8")
			assert.ErrorIs(t, err, api.ErrNotSent)
		}
	}
}

func TestInvalidUTF8ReportsEveryField(t *testing.T) {
	t.Parallel()
	_, _, err := sent(t, Call{
		Operation: operation.TreatmentPlanCreate, Path: []string{latin1}, Query: search{Query: latin1, IDs: []string{"x", latin1}},
		Body: draft{Name: latin1, Tags: []tag{{ID: latin1}}},
	})
	assert.EqualError(t, err, "dispensary: treatment_plans.create: patient_id must be valid UTF-8, allergen_ids must be valid UTF-8, "+
		"query must be valid UTF-8, name must be valid UTF-8, tags[0].tag_id must be valid UTF-8")
}

func TestReplacementCharacterIsValid(t *testing.T) {
	t.Parallel()
	const replacement = "Jos\ufffd"
	for _, body := range []any{
		replacement, `a \ufffd`, map[string]any{replacement: replacement}, json.RawMessage(`"\ufffd ` + replacement + `"`),
		draft{Name: replacement, Day: api.Value(replacement), Changed: api.Value(tag{ID: replacement})},
		record{Wordy: &wordy{replacement}, Raw: json.RawMessage(`"\ufffd"`), Bytes: []byte("\xe9"), Any: replacement},
		record{Untagged: replacement, Hidden: latin1, private: latin1},
	} {
		_, _, err := sent(t, Call{
			Operation: operation.AddressList, Path: []string{replacement}, Query: url.Values{replacement: {replacement}}, Body: body,
		})
		assert.NoError(t, err, "%v", body)
	}
}

func TestInvalidUTF8InRawCallNamesField(t *testing.T) {
	t.Parallel()
	transport := &answers{}
	client := newTestClient(t, transport)
	for field, call := range map[string]rawCall{
		"Path":  {path: "/a/" + latin1},
		"id":    {path: "/a", query: url.Values{"id": {latin1}}},
		"query": {path: "/a", query: url.Values{latin1: {"x"}}},
		"a.b":   {path: "/a", body: map[string]any{"a": map[string]string{"b": latin1}}},
	} {
		_, err := Raw(t.Context(), client, "POST", call.path, call.query, call.body, nil)
		require.EqualError(t, err, "dispensary: raw: "+field+" must be valid UTF-8")
	}
	assert.Zero(t, transport.calls.Load())
}

// rawCall contains the texts of a raw call.
type rawCall struct {
	path  string
	query url.Values
	body  any
}

func TestValidTextCheckAllocatesNothing(t *testing.T) {
	body, err := json.Marshal(draft{Name: "José", Day: api.Value("x")})
	require.NoError(t, err)
	assert.Zero(t, testing.AllocsPerRun(100, func() { mayAlterText(body) }))
}
