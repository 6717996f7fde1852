package contract_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the generators of clients in Go and TypeScript stumble over is not in the
// document; .ci/generators runs them.
func TestTheDocumentServesGenerators(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	for place, schema := range placed(t, check.Document()) {
		kinds := slices.DeleteFunc(schema.kinds(), func(kind string) bool { return kind == "null" })
		assert.LessOrEqual(t, len(kinds), 1, "%s: a generator takes one type beside null; use oneOf", place)
		required, _ := schema["required"].([]any)
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			_, preset := property.(map[string]any)["default"]
			assert.False(t, preset && !slices.Contains(required, any(name)), "%s/%s: with a default it becomes one that callers have to give", place, name)
		}
	}
	inPaths, err := json.Marshal(check.Document().Paths)
	require.NoError(t, err)
	for name := range check.Document().Components.Parameters {
		assert.True(t, strings.Contains(string(inPaths), `"#/components/parameters/`+name+`"`), "%s: generators leave out what only webhooks use", name)
	}
}

// node is an object of the document.
type node map[string]any

// kinds are the values of the keyword type.
func (n node) kinds() []string {
	var kinds []string
	list, _ := n["type"].([]any)
	for _, kind := range list {
		if text, is := kind.(string); is {
			kinds = append(kinds, text)
		}
	}
	return kinds
}

// placed are all objects of the document, by where they stand; parameters by name.
func placed(t *testing.T, doc *openapi3.T) map[string]node {
	t.Helper()
	encoded, err := json.Marshal(doc)
	require.NoError(t, err)
	var tree map[string]any
	require.NoError(t, json.Unmarshal(encoded, &tree))
	all := map[string]node{}
	var walk func(at []string, value any)
	walk = func(at []string, value any) {
		switch value := value.(type) {
		case map[string]any:
			all[strings.Join(at, "/")] = value
			for key := range value {
				walk(append(slices.Clone(at), key), value[key])
			}
		case []any:
			for i, one := range value {
				name := strconv.Itoa(i)
				if object, is := one.(map[string]any); is && object["name"] != nil {
					name = fmt.Sprint(object["name"]) // of a parameter
				}
				walk(append(slices.Clone(at), name), one)
			}
		}
	}
	walk(nil, tree)
	return all
}

// A value of two types is held to both as strictly as a value of one.
func TestValuesOfTwoTypes(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	token := `{"oauth":{"access_token":"a","token_type":"Bearer","expires_in":%s,"refresh_token":"r","scope":"catalog:read",` +
		`"created_at":"2026-03-02T09:00:00Z","resource_owner":{"id":"1","type":"Practitioner"}}}`
	for value, want := range map[string]string{
		`7200`: "", `"7200"`: "",
		`7200.5`: "type", `true`: "type", `null`: "type", `{}`: "type", `"soon"`: "pattern", `"-1"`: "pattern", `""`: "pattern",
	} {
		if want != "" {
			want = "oauth.token: response body /oauth/expires_in: " + want
		}
		assert.Equal(t, want, text(check.CheckResponse("oauth.token", reply(200), fmt.Appendf(nil, token, value))), value)
	}
	for value, good := range map[string]bool{`"1001"`: true, `1001`: true, `1.5`: false, `null`: false, `[]`: false} {
		body := fmt.Appendf(nil, `{"errors":[{"code":%s,"message":"Slow down"}]}`, value)
		assert.Equal(t, good, len(check.CheckResponse("patients.update", reply(429), body)) == 0, value)
	}
}
