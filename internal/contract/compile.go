package contract

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// resource is the document's address inside the engine. Nothing is fetched from it.
const resource = "https://contract.invalid/openapi.json"

// compiler compiles parts of the document that a JSON pointer names.
type compiler struct{ engine *jsonschema.Compiler }

// newCompiler gives the engine the whole document as one resource, so that references
// resolve where they stand.
func newCompiler(doc *openapi3.T, strict bool) (*compiler, error) {
	encoded, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	tree, err := jsonschema.UnmarshalJSON(strings.NewReader(string(encoded)))
	if err != nil {
		return nil, err
	}
	if strict {
		closeObjects(tree)
	}
	engine := jsonschema.NewCompiler()
	engine.DefaultDraft(jsonschema.Draft2020)
	engine.AssertFormat()
	return &compiler{engine}, engine.AddResource(resource, tree)
}

func (c *compiler) schema(at string) (*jsonschema.Schema, error) {
	return c.engine.Compile(resource + (&url.URL{Fragment: at}).String())
}

// closeObjects makes every object schema refuse properties that it does not name, unless
// it says itself that it takes any. Fragments without a type are left alone: they only
// narrow what an allOf has said before them.
func closeObjects(node any) {
	switch node := node.(type) {
	case map[string]any:
		if _, decided := node["additionalProperties"]; !decided && isObject(node["type"]) {
			node["additionalProperties"] = false
		}
		for _, child := range node {
			closeObjects(child)
		}
	case []any:
		for _, child := range node {
			closeObjects(child)
		}
	}
}

// isObject looks at the value of the keyword type.
func isObject(kinds any) bool {
	if list, ok := kinds.([]any); ok {
		for _, one := range list {
			if one == "object" {
				return true
			}
		}
	}
	return kinds == "object"
}

// compile builds every operation, webhook and shared answer.
func (v *Validator) compile() error {
	c, err := newCompiler(v.doc, v.strict)
	if err != nil {
		return err
	}
	v.operations, v.webhooks = map[string]*operation{}, map[string]*operation{}
	for path, item := range v.doc.Paths.Map() {
		for method, op := range item.Operations() {
			built, err := c.operation(v.doc, "paths", path, method, item, op)
			if err != nil {
				return fmt.Errorf("%s %s: %w", method, path, err)
			}
			built.segments = strings.Split(path, "/")[1:]
			built.name = op.OperationID
			v.operations[built.name] = built
		}
	}
	for event, item := range v.doc.Webhooks {
		if v.webhooks[event], err = c.operation(v.doc, "webhooks", event, "POST", item, item.Post); err != nil {
			return fmt.Errorf("webhook %s: %w", event, err)
		}
	}
	v.notFound, err = c.answer("/components/responses/NotFound", v.doc.Components.Responses["NotFound"].Value)
	return err
}

func (c *compiler) operation(doc *openapi3.T, section, path, method string, item *openapi3.PathItem, op *openapi3.Operation) (*operation, error) {
	built := &operation{
		name:    path,
		answers: map[string]answer{},
		route:   &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: op},
	}
	at := pointer([]string{section, path, strings.ToLower(method)})
	if ref := op.RequestBody; ref != nil {
		var err error
		if built.request, err = c.body(within(ref.Ref, at+"/requestBody"), ref.Value.Content); err != nil {
			return nil, err
		}
		built.request.required = ref.Value.Required
	}
	for status, ref := range op.Responses.Map() {
		compiled, err := c.answer(within(ref.Ref, at+"/responses/"+status), ref.Value)
		if err != nil {
			return nil, fmt.Errorf("status %s: %w", status, err)
		}
		built.answers[status] = compiled
	}
	return built, nil
}

// within is where a part of the document stands: where its reference leads, or in place.
func within(ref, place string) string {
	if ref != "" {
		return strings.TrimPrefix(ref, "#")
	}
	return place
}
