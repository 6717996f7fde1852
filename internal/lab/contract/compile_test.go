package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dispensary-go/dispensary/openapi"
)

// resource is the URL of the document inside the engine. The engine fetches no URL.
const resource = "https://contract.invalid/openapi.json"

// compiler compiles parts of the document by JSON pointer.
type compiler struct{ engine *jsonschema.Compiler }

// newCompiler returns a compiler with the whole document as one resource, so that references
// resolve.
func newCompiler(doc *openapi3.T) (*compiler, error) {
	encoded, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	tree, err := jsonschema.UnmarshalJSON(strings.NewReader(string(encoded)))
	if err != nil {
		return nil, err
	}
	closeObjects(tree)
	engine := jsonschema.NewCompiler()
	engine.DefaultDraft(jsonschema.Draft2020)
	engine.AssertFormat()
	return &compiler{engine}, engine.AddResource(resource, tree)
}

func (c *compiler) schema(at string) (*jsonschema.Schema, error) {
	return c.engine.Compile(resource + (&url.URL{Fragment: at}).String())
}

// closeObjects makes every object schema reject unknown properties, unless the schema has
// additionalProperties. It ignores fragments without a type, because they narrow an allOf.
func closeObjects(node any) {
	switch node := node.(type) {
	case map[string]any:
		kinds, _ := node["type"].([]any)
		isObject := node["type"] == "object" || slices.Contains(kinds, any("object"))
		if _, decided := node["additionalProperties"]; !decided && isObject {
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

// compile compiles every operation, webhook and shared response.
func (v *Validator) compile() error {
	c, err := newCompiler(v.doc)
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
			v.operations[op.OperationID] = built
		}
	}
	for event, item := range v.doc.Webhooks {
		if v.webhooks[event], err = c.operation(v.doc, "webhooks", event, "POST", item, item.Post); err != nil {
			return fmt.Errorf("webhook %s: %w", event, err)
		}
	}
	v.notFound, err = c.response("/components/responses/NotFound", v.doc.Components.Responses["NotFound"].Value)
	return err
}

func (c *compiler) operation(doc *openapi3.T, section, path, method string, item *openapi3.PathItem, op *openapi3.Operation) (*operation, error) {
	built := &operation{
		responses: map[string]response{},
		route:     &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: op},
	}
	at := pointer(section, path, strings.ToLower(method))
	if ref := op.RequestBody; ref != nil {
		var err error
		if built.request, err = c.body(within(ref.Ref, at+"/requestBody"), ref.Value.Content); err != nil {
			return nil, err
		}
		built.request.required = ref.Value.Required
	}
	for status, ref := range op.Responses.Map() {
		compiled, err := c.response(within(ref.Ref, at+"/responses/"+status), ref.Value)
		if err != nil {
			return nil, fmt.Errorf("status %s: %w", status, err)
		}
		built.responses[status] = compiled
	}
	return built, nil
}

func (c *compiler) response(at string, r *openapi3.Response) (response, error) {
	built := response{headers: map[string]header{}}
	for name, ref := range r.Headers {
		schema, err := c.schema(within(ref.Ref, at+pointer("headers", name)) + "/schema")
		if err != nil {
			return response{}, err
		}
		built.headers[name] = header{required: ref.Value.Required, schema: schema}
	}
	var err error
	built.body, err = c.body(at, r.Content)
	built.body.required = len(r.Content) > 0
	return built, err
}

func (c *compiler) body(at string, content openapi3.Content) (body, error) {
	built := body{content: map[string]*jsonschema.Schema{}}
	for mediaType, media := range content {
		built.content[mediaType] = nil
		if media.Schema == nil {
			continue
		}
		schema, err := c.schema(at + pointer("content", mediaType, "schema"))
		if err != nil {
			return body{}, err
		}
		built.content[mediaType] = schema
	}
	return built, nil
}

// within returns the location of a part of the document: the target of its reference, or place.
func within(ref, place string) string {
	if ref != "" {
		return strings.TrimPrefix(ref, "#")
	}
	return place
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer returns a path as a JSON pointer.
func pointer(path ...string) string {
	var text strings.Builder
	for _, token := range path {
		text.WriteString("/" + pointerEscapes.Replace(token))
	}
	return text.String()
}

// Validator checks exchanges against the contract. It is safe for concurrent use.
type Validator struct {
	doc        *openapi3.T
	operations map[string]*operation // by operationId
	webhooks   map[string]*operation // by event type
	notFound   response              // response to requests without an operation
}

// operation is an operation or webhook with compiled bodies.
type operation struct {
	segments  []string // path segments of the route
	route     *routers.Route
	request   body
	responses map[string]response // by status key of the document
}

// Load reads the published document. It fails if the document or an example in it is not valid
// OpenAPI 3.1, or if a schema does not compile.
func Load() (*Validator, error) {
	doc, err := openapi3.NewLoader().LoadFromData(openapi.Document())
	if err != nil {
		return nil, fmt.Errorf("contract: read the document: %w", err)
	}
	if !doc.IsOpenAPI31OrLater() {
		return nil, errors.New("contract: the document is not OpenAPI 3.1")
	}
	if err := doc.Validate(context.Background(), openapi3.EnableMultiError()); err != nil {
		return nil, fmt.Errorf("contract: the document is invalid: %w", err)
	}
	v := &Validator{doc: doc}
	if err := v.compile(); err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	return v, nil
}

// Document returns the document. It must not be changed.
func (v *Validator) Document() *openapi3.T { return v.doc }

// Webhooks returns the event types of the document's webhooks, sorted.
func (v *Validator) Webhooks() []string { return slices.Sorted(maps.Keys(v.webhooks)) }

// CheckExchange returns the violations of the request and the response of an operation, such as
// "patients.create".
func (v *Validator) CheckExchange(operation string, e Exchange) []string {
	return append(v.CheckRequest(operation, e.Request, e.RequestBody), v.CheckResponse(operation, e.Response, e.ResponseBody)...)
}

// CheckRequest returns the violations of a request to an operation.
func (v *Validator) CheckRequest(operation string, req *http.Request, body []byte) []string {
	op, known := v.operations[operation]
	if !known {
		return []string{operation + ": unknown operation"}
	}
	return v.checkRequest(op, req, body)
}

// CheckResponse returns the violations of a response of an operation.
func (v *Validator) CheckResponse(operation string, resp *http.Response, body []byte) []string {
	op, known := v.operations[operation]
	if !known {
		return []string{operation + ": unknown operation"}
	}
	return op.checkResponse(resp, body)
}

// CheckUnrouted returns the violations of the response to a request without an operation.
func (v *Validator) CheckUnrouted(resp *http.Response, body []byte) []string {
	return v.notFound.check(resp, body)
}

// CheckWebhook returns the violations of a webhook and of the integrator's response. It ignores a
// nil response.
func (v *Validator) CheckWebhook(eventType string, req *http.Request, reqBody []byte, resp *http.Response, respBody []byte) []string {
	op, known := v.webhooks[eventType]
	if !known {
		return []string{eventType + ": unknown webhook"}
	}
	violations := v.checkRequest(op, req, reqBody)
	if resp != nil {
		violations = append(violations, op.checkResponse(resp, respBody)...)
	}
	return violations
}
