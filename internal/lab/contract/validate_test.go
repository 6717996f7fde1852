package contract

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"

	"github.com/dispensary-go/dispensary/openapi"
)

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
