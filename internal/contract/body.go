package contract

import (
	"bytes"
	"mime"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// mediaJSON is the media type of all bodies but the authorize page's.
const mediaJSON = "application/json"

// body is what a message may contain, by media type. A nil schema takes any text.
type body struct {
	content  map[string]*jsonschema.Schema
	required bool
}

func (c *compiler) body(at string, content openapi3.Content) (body, error) {
	built := body{content: map[string]*jsonschema.Schema{}}
	for mediaType, media := range content {
		built.content[mediaType] = nil
		if media.Schema == nil {
			continue
		}
		schema, err := c.schema(at + pointer([]string{"content", mediaType, "schema"}))
		if err != nil {
			return body{}, err
		}
		built.content[mediaType] = schema
	}
	return built, nil
}

// check reports what is wrong with a body, as violations whose operation and side are
// still open.
func (b body) check(contentType string, data []byte) []Violation {
	switch {
	case len(data) == 0 && b.required:
		return []Violation{{Place: InBody, Rule: RuleRequired}}
	case len(data) == 0:
		return nil
	case len(b.content) == 0:
		return []Violation{{Place: InBody, Rule: RuleUnknown}}
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	schema, known := b.content[mediaType]
	if err != nil || !known {
		return []Violation{{Place: InHeader, Path: "Content-Type", Rule: RuleUnknown}}
	}
	if schema == nil {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		// The error quotes the body.
		return []Violation{{Place: InBody, Rule: RuleMalformed}}
	}
	if err := schema.Validate(value); err != nil {
		return located(InBody, err)
	}
	return nil
}

// located turns the engine's error into violations.
func located(place Place, err error) []Violation {
	var violations []Violation
	for _, f := range findings(err) {
		violations = append(violations, Violation{Place: place, Path: pointer(f.path), Rule: f.rule})
	}
	return violations
}

// signed fills in whose violations they are.
func signed(operation string, side Side, violations []Violation) []Violation {
	for i := range violations {
		violations[i].Operation, violations[i].Side = operation, side
	}
	return violations
}
