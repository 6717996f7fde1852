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
	"github.com/dispensary-go/dispensary/internal/apierror/detail"
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
		assert.Equal(t, field, knownFields.about(detail.Label(field)+" can't be blank"))
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
	transport := &answers{}
	client := newTestClient(t, transport)
	_, err := listOf(client, Call{Operation: operation.AddressList, Path: []string{"."}, Query: struct{ C choosy }{}}, api.ListSettings{StartAt: -1, PageSize: -1}).Page(t.Context())
	assert.EqualError(t, err, "dispensary: addresses.list: patient_id must be an id, CreatedAt ends before it begins, page[number] must not be negative, page[size] must not be negative")
	assert.ErrorIs(t, err, api.ErrNotSent)
	assert.Zero(t, transport.calls.Load())
}
