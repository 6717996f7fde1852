package contract

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// answer is a response of the document.
type answer struct {
	headers map[string]header
	body    body
}

type header struct {
	required bool
	schema   *jsonschema.Schema
}

func (c *compiler) answer(at string, response *openapi3.Response) (answer, error) {
	built := answer{headers: map[string]header{}}
	for name, ref := range response.Headers {
		// Header values are checked as the text they are.
		if schema := ref.Value.Schema; schema == nil || !schema.Value.Type.Is("string") {
			return answer{}, fmt.Errorf("header %s is not a string", name)
		}
		schema, err := c.schema(within(ref.Ref, at+pointer([]string{"headers", name})) + "/schema")
		if err != nil {
			return answer{}, err
		}
		built.headers[name] = header{required: ref.Value.Required, schema: schema}
	}
	var err error
	built.body, err = c.body(at, response.Content)
	built.body.required = len(response.Content) > 0
	return built, err
}

// answer is what the document says of a status: of itself, of its class, or of all
// others.
func (o *operation) answer(code int) (answer, bool) {
	status := strconv.Itoa(code)
	for _, key := range []string{status, status[:1] + "XX", "default"} {
		if expected, known := o.answers[key]; known {
			return expected, true
		}
	}
	return answer{}, false
}

func (o *operation) unknownStatus(code int) []Violation {
	return []Violation{{o.name, Response, InStatus, strconv.Itoa(code), RuleUnknown}}
}

func (o *operation) checkResponse(resp *http.Response, body []byte) []Violation {
	expected, known := o.answer(resp.StatusCode)
	if !known {
		return o.unknownStatus(resp.StatusCode)
	}
	return expected.check(o.name, resp, body)
}

func (a answer) check(operation string, resp *http.Response, data []byte) []Violation {
	var violations []Violation
	for _, name := range slices.Sorted(maps.Keys(a.headers)) {
		want, values := a.headers[name], resp.Header.Values(name)
		if len(values) == 0 && want.required {
			violations = append(violations, Violation{Place: InHeader, Path: name, Rule: RuleRequired})
		}
		for _, value := range values {
			for _, f := range findingsOf(want.schema, value) {
				violations = append(violations, Violation{Place: InHeader, Path: name, Rule: f.rule})
			}
		}
	}
	// A response that the document gives no content says nothing about its body.
	if len(a.body.content) > 0 {
		violations = append(violations, a.body.check(resp.Header.Get("Content-Type"), data)...)
	}
	return signed(operation, Response, violations)
}

func findingsOf(schema *jsonschema.Schema, value any) []finding {
	if err := schema.Validate(value); err != nil {
		return findings(err)
	}
	return nil
}
