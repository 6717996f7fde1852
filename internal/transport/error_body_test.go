package transport

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestErrorBodies(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct {
		code     string
		messages []string
	}{
		`{"error":["Last name can't be blank","Email has been taken"]}`:        {"", []string{"Last name can't be blank", "Email has been taken"}},
		`{"error":"The access token expired"}`:                                 {"", []string{"The access token expired"}},
		`{"status":404,"error":"Not Found"}`:                                   {"", []string{"Not Found"}},
		`{"error":"invalid_grant","error_description":"The grant is invalid"}`: {"invalid_grant", []string{"The grant is invalid"}},
		`{"errors":[{"code":"x","message":"Bad"},{"message":"Worse"}]}`:        {"", []string{"Bad", "Worse"}},
		`{"errors":["Bad"]}`:                     {"", []string{"Bad"}},
		`{"errors":{"email":["taken"],"a":"b"}}`: {"", []string{"a b", "email taken"}},
		`{"message":"Gone"}`:                     {"", []string{"Gone"}},
		`{"error":{"message":"Nested"}}`:         {"", []string{"Nested"}},
		`{"error":5}`:                            {"", nil},
		`{"error":null,"errors":null}`:           {"", nil},
		`{"errors":[[[[[[["deep"]]]]]]]}`:        {"", nil},
		`<html><body>Bad gateway</body></html>`:  {"", nil},
		``:                                       {"", nil},
		`[]`:                                     {"", nil},
		`{"error":"Jane Doe has no such allergies"}`: {"", []string{"Jane Doe has no such allergies"}},
	} {
		code, messages := parseErrorBody([]byte(body))
		assert.Equal(t, want.code, code, body)
		assert.Equal(t, want.messages, messages, body)
	}
}

func FuzzErrorBody(f *testing.F) {
	f.Add([]byte(`{"error":["a"],"errors":{"b":[{"message":"c"}]}}`))
	f.Add([]byte(`{"error":"invalid_grant","error_description":"x"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		code, messages := parseErrorBody(body)
		if code != "" {
			assert.True(t, slices.Contains(oauthCodes, code))
		}
		if len(messages) > 0 {
			assert.True(t, json.Valid(body))
		}
	})
}
