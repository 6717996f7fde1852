package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// knownFields are the fields of a request with every kind of field.
var knownFields = requestFields{
	"email", "first_name", "last_name", "metadata", "metadata.id", "practitioner_id", "recommendations", "recommendations[].dosage",
	"recommendations[].dosage.additional_info", "recommendations[].units_to_purchase", "recommendations[].variant_id", "page[size]",
}

func TestErrorBodyYieldsMessages(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct {
		code     string
		messages []string // each with its field and a colon before it
	}{
		`{"error":["Last name can't be blank","Email has been taken","Bad"]}`:    {"", []string{"last_name:Last name can't be blank", "email:Email has been taken", ":Bad"}},
		`{"error":"Email has been taken; Last name can't be blank"}`:             {"", []string{"email:Email has been taken", "last_name:Last name can't be blank"}},
		`{"status":400,"error":"Bad; worse; Email is bad; too"}`:                 {"", []string{":Bad; worse", "email:Email is bad; too"}},
		`{"error":"The access token expired"}`:                                   {"", []string{":The access token expired"}},
		`{"status":404,"error":"Not Found"}`:                                     {"", []string{":Not Found"}},
		`{"error":"invalid_grant","error_description":"The grant is invalid"}`:   {"invalid_grant", []string{":The grant is invalid"}},
		`{"errors":[{"code":"x","message":"Bad"},{"message":"Email is worse"}]}`: {"", []string{":Bad", "email:Email is worse"}},
		`{"errors":["Bad"]}`: {"", []string{":Bad"}},
		`{"errors":{"email":["taken","Choose another"],"a":"b"}}`:                                                               {"", []string{":a b", "email:Email taken", "email:Choose another"}},
		`{"errors":{"Last name":"is odd","metadata":{"id":["is long"],"x":"y"}}}`:                                               {"", []string{"last_name:Last name is odd", "metadata.id:Metadata.id is long", ":metadata.x y"}},
		`{"errors":{"recommendations":["are few",{"variant_id":"must exist"}]}}`:                                                {"", []string{"recommendations:Recommendations are few", "recommendations[1].variant_id:Recommendations[1].variant must exist"}},
		`{"errors":{"recommendations[2].dosage.additional_info":{"message":"is too long"}}}`:                                    {"", []string{"recommendations[2].dosage.additional_info:Recommendations[2].dosage.additional info is too long"}},
		`{"errors":[{"email":["taken"]}]}`:                                                                                      {"", []string{"email:Email taken"}},
		`{"errors":[{"field":"email","message":"has been taken"}]}`:                                                             {"", []string{"email:Email has been taken"}},
		`{"errors":[{"attribute":"email","message":"Has been taken"}]}`:                                                         {"", []string{"email:Has been taken"}},
		`{"errors":[{"param":"metadata.id","msg":"is long"}]}`:                                                                  {"", []string{"metadata.id:Metadata.id is long"}},
		`{"errors":[{"field":"colour","message":"is odd"}]}`:                                                                    {"", []string{":colour is odd"}},
		`{"errors":[{"field":"base","message":"Email is bad"}]}`:                                                                {"", []string{"email:Email is bad"}},
		`{"errors":[{"field":7,"message":"Bad"}]}`:                                                                              {"", []string{":Bad"}},
		`{"errors":{"base":["Email is bad"]}}`:                                                                                  {"", []string{"email:Email is bad"}},
		`{"errors":{"email":[{"code":"taken","message":"has been taken"}]}}`:                                                    {"", []string{"email:Email has been taken"}},
		`{"errors":{"recommendations":[{"field":"variant_id","message":"must exist"}]}}`:                                        {"", []string{"recommendations[0].variant_id:Recommendations[0].variant must exist"}},
		`{"errors":[{"status":"422","title":"Invalid","detail":"Email is bad","source":{"pointer":"/data/attributes/email"}}]}`: {"", []string{"email:Email is bad"}},
		`{"errors":[{"title":"can't be blank","source":{"pointer":"/data/attributes/last_name"}}]}`:                             {"", []string{"last_name:Last name can't be blank"}},
		`{"errors":[{"title":"Odd","detail":"","source":{"pointer":"/data/attributes/metadata/id"}}]}`:                          {"", []string{"metadata.id:Odd"}},
		`{"errors":[{"detail":"must exist","source":{"pointer":"/data/relationships/practitioner"}}]}`:                          {"", []string{"practitioner_id:Practitioner must exist"}},
		`{"errors":[{"detail":"must exist","source":{"pointer":"/data/attributes/recommendations/2/variant_id"}}]}`:             {"", []string{"recommendations[2].variant_id:Recommendations[2].variant must exist"}},
		`{"errors":[{"detail":"is large","source":{"parameter":"page[size]"}}]}`:                                                {"", []string{"page[size]:Page[size] is large"}},
		`{"errors":[{"detail":"Bad","source":{"pointer":"/data"}},{"detail":"Worse","source":"x"}]}`:                            {"", []string{":Bad", ":Worse"}},
		`{"error":["Email is bad"],"errors":{"email":["is bad"]}}`:                                                              {"", []string{"email:Email is bad"}},
		`{"error":["email is bad","Bad"],"message":"Bad","errors":{"email":["is bad","is odd"]}}`:                               {"", []string{"email:email is bad", ":Bad", "email:Email is odd"}},
		`{"message":"Gone"}`:                    {"", []string{":Gone"}},
		`{"error":{"message":"Nested"}}`:        {"", []string{":Nested"}},
		`{"error":5}`:                           {"", nil},
		`{"error":null,"errors":null}`:          {"", nil},
		`{"errors":[[[[[[["deep"]]]]]]]}`:       {"", nil},
		`<html><body>Bad gateway</body></html>`: {"", nil},
		``:                                      {"", nil},
		`[]`:                                    {"", nil},
		`{"error":"Jane Doe has no such allergies"}`: {"", []string{":Jane Doe has no such allergies"}},
	} {
		code, messages := parseErrorBody([]byte(body), knownFields)
		assert.Equal(t, want.code, code, body)
		var got []string
		for _, m := range messages {
			got = append(got, m.Field+":"+m.Text)
		}
		assert.Equal(t, want.messages, got, body)
	}
}

// For any body, the field names cause no loss of all messages, no message is repeated, and each
// field of a message is a known one.
func FuzzErrorBody(f *testing.F) {
	f.Add([]byte(`{"error":["Email is bad"],"errors":{"b":[{"message":"c"}]}}`))
	f.Add([]byte(`{"error":"invalid_grant","error_description":"x"}`))
	f.Add([]byte(`{"error":"Email is bad; Recommendations[07].variant must exist; ; x"}`))
	f.Add([]byte(`{"errors":{"recommendations":[{"variant_id":["must exist"],"colour":"is odd"}],"metadata":{"id":"is long"}}}`))
	f.Add([]byte(`{"errors":[{"title":"x","detail":"Email is bad","source":{"pointer":"/data/attributes/email"}},{"field":"email","message":"is bad"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		code, messages := parseErrorBody(body, knownFields)
		if code != "" {
			assert.True(t, slices.Contains(oauthCodes, code))
		}
		if len(messages) > 0 {
			assert.True(t, json.Valid(body))
		}
		_, unplaced := parseErrorBody(body, nil)
		assert.Equal(t, len(unplaced) > 0, len(messages) > 0)
		for i, m := range messages {
			assert.NotContains(t, messages[:i], m)
		}
		for _, m := range unplaced {
			assert.Empty(t, m.Field)
		}
		for _, m := range messages {
			assertKnown(t, m)
		}
	})
}

// place keeps the whole text in order, for any number of fields.
func FuzzPlace(f *testing.F) {
	for _, text := range []string{
		"Email is bad", "Email is bad; too", "Bad; Email is worse; Last name can't be blank", "; ; ", "Recommendations[3].dosage.additional info is long",
		"param is missing or the value is empty: email", "Unknown field: email; First name: ", "Recommendations variant must exist",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var texts []string
		for _, m := range knownFields.place(text) {
			texts = append(texts, m.Text)
			assertKnown(t, m)
		}
		assert.Equal(t, text, strings.Join(texts, "; "))
	})
}

var position = regexp.MustCompile(`\[\d+]`)

func assertKnown(t *testing.T, m hidden.Message) {
	t.Helper()
	if m.Field != "" {
		assert.Contains(t, knownFields, position.ReplaceAllString(m.Field, "[]"))
	}
}

func TestIncompleteContentFails(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`:                          "has no products",
		`{"products":null,"meta":{}}`: "has no products",
		`{"products":[]}`:             "has no meta",
		`{"products":{"size":"canary"},"meta":{}}`: "has no products",
		`["canary"]`:    "is not a JSON object",
		`{"products":[`: "malformed JSON at byte",
		`<html>canary`:  "malformed JSON at byte",
		`{"products":[],"meta":{"total_pages":{}}}`: "field meta.total_pages does not fit",
	} {
		transport := says(200, body)
		_, err := collect(t, newTestClient(t, transport), api.ListSettings{})
		require.ErrorIs(t, err, api.ErrBadResponse, body)
		assert.Regexp(t, want, err.Error())
		for _, text := range texts(err) {
			assert.NotContains(t, text, "canary")
			assert.NotContains(t, text, "5551234")
		}
		failure := failureOf(t, err)
		assert.Equal(t, body, string(failure.Body()), "the error keeps the body")
	}
}

// report is an invalid field as the observer and the log receive it.
type report struct{ operation, field, id string }

// reporting collects the invalid fields of a client from its observer and its log.
func reporting(observed *[]report, logged *bytes.Buffer) func(*Config) {
	return func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(logged, nil))
		c.Observers = []observe.Observer{{InvalidField: func(_ context.Context, f observe.InvalidField) {
			*observed = append(*observed, report{f.Operation, f.Field, f.RecordID})
		}}}
	}
}

func TestInvalidRecordKeepsList(t *testing.T) {
	t.Parallel()
	var observed []report
	var logged bytes.Buffer
	transport := says(200, `{"products":[{"id":"p1","size":1},{"size":"canary","id":"p2"},null,"canary",{"id":17,"size":"3"},{"id":"555 canary","size":[]}],"meta":{"total_pages":1}}`)
	ids, err := collect(t, newTestClient(t, transport, reporting(&observed, &logged)), api.ListSettings{})
	require.NoError(t, err)
	assert.Equal(t, []string{"p1", "p2", "17", "555 canary"}, ids)
	assert.Equal(t, []report{
		{"products.list", "products[1].size", "p2"}, {"products.list", "products[2]", ""},
		{"products.list", "products[3]", ""}, {"products.list", "products[5].size", ""},
	}, observed)
	assert.Contains(t, logged.String(), "level=WARN")
	assert.Contains(t, logged.String(), "operation=products.list field=products[1].size record_id=p2")
	assert.NotContains(t, logged.String(), "canary")
}

func TestInvalidMetaFailsAfterManyInvalidFields(t *testing.T) {
	t.Parallel()
	transport := says(200, `{"products":[`+strings.Repeat(`{"id":"p","size":"x"},`, 150)+`{"id":"p"}],"meta":{"total_pages":"x"}}`)
	_, err := collect(t, newTestClient(t, transport), api.ListSettings{})
	require.ErrorIs(t, err, api.ErrBadResponse)
	assert.ErrorContains(t, err, "meta.total_pages")
}

func TestInvalidPreviousPageKeepsList(t *testing.T) {
	t.Parallel()
	var observed []report
	transport := metas(`{"current_page":1,"next_page":2,"prev_page":false,"total_pages":2,"total_count":2}`, `{"current_page":2,"prev_page":{},"total_pages":2,"total_count":2}`)
	ids, err := collect(t, newTestClient(t, transport, reporting(&observed, new(bytes.Buffer))), api.ListSettings{})
	require.NoError(t, err)
	assert.Len(t, ids, 2)
	assert.Equal(t, []report{{"products.list", "meta.prev_page", ""}, {"products.list", "meta.prev_page", ""}}, observed)
}

func TestInvalidFieldKeepsRecord(t *testing.T) {
	t.Parallel()
	var observed []report
	transport := says(200, `{"patient":{"id":"p","size":1e999}}`)
	client := newTestClient(t, transport, reporting(&observed, new(bytes.Buffer)))
	one, err := One[thing](t.Context(), client, Call{Operation: operation.PatientGet, Path: []string{"p"}})
	require.NoError(t, err)
	assert.Equal(t, &thing{ID: "p"}, one)
	assert.Equal(t, []report{{"patients.get", "patient.size", "p"}}, observed)
}

func TestRecordWithoutIDFails(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"patient":{}}`, `{"patient":{"id":null}}`, `{"patient":{"id":""}}`, `{"patient":{"id":{}}}`} {
		var observed []report
		client := newTestClient(t, says(200, body), reporting(&observed, new(bytes.Buffer)))
		_, err := One[thing](t.Context(), client, Call{Operation: operation.PatientGet, Path: []string{"p"}})
		require.ErrorIs(t, err, api.ErrBadResponse, body)
		assert.ErrorContains(t, err, "patient has no id")
		_, err = One[thing](t.Context(), client, Call{Operation: operation.PatientCreate})
		require.ErrorIs(t, err, api.ErrMaybeApplied, body)
		assert.Empty(t, observed)
	}
}

// Calls share buffers, so decoded values must not change when a buffer is reused.
func TestDecodedValuesOutliveBuffer(t *testing.T) {
	t.Parallel()
	transport := &responder{respond: func(call int, _ *http.Request) (*http.Response, error) {
		return reply(200, fmt.Sprintf(`{"patient":{"id":"patient-%d"}}`, call)), nil
	}}
	client := newTestClient(t, transport)
	var got []*thing
	for range 50 {
		one, err := One[thing](t.Context(), client, Call{Operation: operation.PatientGet, Path: []string{"p"}})
		require.NoError(t, err)
		got = append(got, one)
	}
	for i, one := range got {
		assert.Equal(t, fmt.Sprintf("patient-%d", i+1), one.ID)
	}
}

func TestNullListIsEmptyWithoutRecords(t *testing.T) {
	t.Parallel()
	for meta, empty := range map[string]bool{
		`{"current_page":1,"next_page":null,"total_pages":0,"total_count":0}`: true,
		`{"current_page":1,"next_page":null,"total_pages":1,"total_count":0}`: true,
		`{"current_page":1,"next_page":null,"total_pages":1,"total_count":4}`: false,
		`{"current_page":1,"next_page":2,"total_pages":2,"total_count":0}`:    false,
		`{"total_count":0}`: false,
		`null`:              false,
	} {
		for _, list := range []string{`"products":null,`, ``} {
			client := newTestClient(t, says(200, `{`+list+`"meta":`+meta+`}`))
			page, err := listOf(client, Call{Operation: operation.ProductList}, api.ListSettings{}).Page(t.Context())
			if !empty {
				require.ErrorIs(t, err, api.ErrBadResponse, meta)
				continue
			}
			require.NoError(t, err, meta)
			assert.Empty(t, page.Items)
			got, err := collect(t, client, api.ListSettings{})
			require.NoError(t, err, meta)
			assert.Empty(t, got)
		}
	}
}
