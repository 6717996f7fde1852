package transport

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dispensary-go/dispensary/internal/apierror/detail"
	"github.com/stretchr/testify/assert"
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

func assertKnown(t *testing.T, m detail.Message) {
	t.Helper()
	if m.Field != "" {
		assert.Contains(t, knownFields, position.ReplaceAllString(m.Field, "[]"))
	}
}
