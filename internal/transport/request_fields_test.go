package transport

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// draft is a body with all kinds of fields in the bodies of this module.
type draft struct {
	Name     string               `json:"name"`
	Born     api.Date             `json:"born,omitzero"`
	Discount float64              `json:"discount,omitempty"`
	Tag      *tag                 `json:"tag,omitempty"`
	Tags     []tag                `json:"tags,omitempty"`
	Changed  api.Optional[tag]    `json:"changed,omitzero"`
	Hidden   string               `json:"-"`
	Day      api.Optional[string] `json:"day,omitzero"`
}

type tag struct {
	ID   string       `json:"tag_id,omitempty"`
	Rate api.Decimal  `json:"rate,omitempty"`
	Of   *json.Number `json:"of,omitempty"`
}

func fieldsOfCall(t *testing.T, call Call) requestFields {
	t.Helper()
	s := &callState{call: call}
	var err error
	s.request, s.built.body, err = sent(t, call)
	require.NoError(t, err)
	return s.fieldsOfRequest()
}

func TestRequestFieldsIncludeBodyAndQuery(t *testing.T) {
	t.Parallel()
	typed := requestFields{
		"born", "changed", "day", "discount", "name", "tag", "tag.of", "tag.rate", "tag.tag_id", "tags", "tags[].of", "tags[].rate", "tags[].tag_id",
	}
	assert.Equal(t, typed, fieldsOfCall(t, Call{Operation: operation.PatientCreate, Body: draft{}}), "unset fields are known too")
	assert.Equal(t, typed, fieldsOfCall(t, Call{Operation: operation.PatientCreate, Body: &draft{}}))
	assert.Contains(t, fieldsOfCall(t, Call{Operation: operation.PatientCreate, Body: draft{Changed: api.Value(tag{ID: "x"})}}), "changed.tag_id")

	raw := requestFields{"a", "a.b", "list", "list[].c"}
	assert.Equal(t, raw, fieldsOfCall(t, Call{Operation: operation.PatientCreate, Body: json.RawMessage(`{"a":{"b":1},"list":[{"c":1},{"c":2},3]}`)}))
	assert.Equal(t, raw, fieldsOfCall(t, Call{Operation: operation.PatientCreate, Body: map[string]any{"a": map[string]int{"b": 1}, "list": []any{map[string]int{"c": 1}}}}))

	assert.Equal(t, requestFields{"allergen_ids", "query"}, fieldsOfCall(t, Call{Operation: operation.ProductSearch, Query: search{}}))
	assert.Equal(t, requestFields{"page[size]", "x"}, fieldsOfCall(t, Call{Operation: operation.ProductSearch, Query: url.Values{"x": {"1"}, "page[size]": {"2"}}}))
	assert.Empty(t, fieldsOfCall(t, Call{Operation: operation.ClinicGet}))
	assert.Empty(t, fieldsOfCall(t, Call{Operation: operation.PatientCreate, Body: json.RawMessage(`7`)}))
	assert.Empty(t, (&callState{call: Call{Operation: operation.ClinicGet}}).fieldsOfRequest(), "no request was built")
}

func TestSentenceYieldsField(t *testing.T) {
	t.Parallel()
	for sentence, field := range map[string]string{
		"Email has already been taken":                                   "email",
		"email has already been taken":                                   "email",
		"Last name can't be blank":                                       "last_name",
		"Last can't be blank":                                            "",
		"Emails are long":                                                "",
		"Practitioner must exist":                                        "practitioner_id",
		"practitioner_id must exist":                                     "practitioner_id",
		"Metadata must be an object":                                     "metadata",
		"Metadata.id must be a string":                                   "metadata.id",
		"Metadata id is too long":                                        "metadata.id",
		"Recommendations can't be blank":                                 "recommendations",
		"Recommendations[0].variant must exist":                          "recommendations[0].variant_id",
		"Recommendations[12] variant must exist":                         "recommendations[12].variant_id",
		"recommendations.3.units_to_purchase can't be blank":             "recommendations[3].units_to_purchase",
		"Recommendations variant must exist":                             "recommendations",
		"Recommendations[1].dosage must be an object":                    "recommendations[1].dosage",
		"Recommendations[1].dosage.additional info is too long":          "recommendations[1].dosage.additional_info",
		"Recommendations[1].colour is odd":                               "recommendations",
		"page[size] must not be above 100":                               "page[size]",
		"param is missing or the value is empty: email":                  "email",
		"Unknown field: recommendations[1].variant_id":                   "recommendations[1].variant_id",
		"Unknown field: colour":                                          "",
		"Treatment plan is not active":                                   "",
		"":                                                               "",
		"; : ":                                                           "",
		strings.Repeat("x ", 1000) + "email":                             "",
		"The e-mail is " + strings.Repeat("very, ", 1000) + "bad: email": "email",
	} {
		assert.Equal(t, field, knownFields.about(sentence), "%.60s", sentence)
	}
}

// The label and the name of every field yield the field.
func TestLabelYieldsField(t *testing.T) {
	t.Parallel()
	for _, field := range knownFields {
		field = strings.ReplaceAll(field, "[]", "[7]")
		assert.Equal(t, field, knownFields.about(hidden.Label(field)+" can't be blank"))
		assert.Equal(t, field, knownFields.about(field+" can't be blank"))
		assert.Equal(t, field, knownFields.named(field))
	}
}

func TestCallReportsAllInvalidArguments(t *testing.T) {
	t.Parallel()
	number := json.Number("x")
	_, _, err := sent(t, Call{
		Operation: operation.TreatmentPlanCreate, Path: []string{""}, Blank: Blank("name", " \t", "email", "x", "last_name", ""),
		Body: draft{
			Name: "x", Born: api.Date{Year: 1980, Month: 2, Day: 30}, Discount: math.Inf(1),
			Tags: []tag{{ID: "x"}, {Rate: "canary"}}, Tag: &tag{Of: &number},
		},
		Query: struct{ C choosy }{},
	})
	assert.EqualError(t, err, "dispensary: treatment_plans.create: patient_id must be an id, CreatedAt ends before it begins, "+
		"name can't be blank, last_name can't be blank, born is not valid, discount is not valid, tag.of is not valid, tags[1].rate is not valid")
	assert.Equal(t, http.StatusInternalServerError, api.ProblemOf(err).Status, "no form has a field CreatedAt")
	var all api.ArgumentErrors
	require.ErrorAs(t, err, &all)
	assert.Equal(t, map[string][]string{
		"patient_id": {"Patient must be an id"}, "name": {"Name can't be blank"}, "last_name": {"Last name can't be blank"}, "born": {"Born is not valid"},
		"discount": {"Discount is not valid"}, "tag.of": {"Tag.of is not valid"}, "tags[1].rate": {"Tags[1].rate is not valid"},
	}, api.ProblemOf(slices.Delete(all, 1, 2)).Fields)
}

func TestListReportsAllInvalidArguments(t *testing.T) {
	t.Parallel()
	transport := &responder{}
	client := newTestClient(t, transport)
	_, err := listOf(client, Call{Operation: operation.AddressList, Path: []string{"."}, Query: struct{ C choosy }{}}, api.ListSettings{StartAt: -1, PageSize: -1}).Page(t.Context())
	assert.EqualError(t, err, "dispensary: addresses.list: patient_id must be an id, CreatedAt ends before it begins, page[number] must not be negative, page[size] must not be negative")
	assert.ErrorIs(t, err, api.ErrNotSent)
	assert.Zero(t, transport.calls.Load())
}

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
	transport := &responder{}
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
