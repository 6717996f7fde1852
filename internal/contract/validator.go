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
	strict     bool
	operations map[string]*operation // by operationId
	webhooks   map[string]*operation // by event type
	notFound   answer                // to requests for no operation at all
}

// operation is an operation or webhook with its bodies compiled.
type operation struct {
	name     string
	segments []string // of the route
	route    *routers.Route
	request  body
	answers  map[string]answer // by the status as the document writes it
}

// Option sets up a [Validator].
type Option func(*Validator)

// Open leaves objects open, as they are published: keys that the document does not have
// are no violations, and neither are query parameters that it does not have.
func Open() Option { return func(v *Validator) { v.strict = false } }

// Load reads the published document.
func Load(options ...Option) (*Validator, error) { return Parse(openapi.Document(), options...) }

// Parse reads another document, such as one with a part taken out. It fails if the
// document is no valid OpenAPI 3.1, examples included, or one of its schemas does not
// compile.
func Parse(document []byte, options ...Option) (*Validator, error) {
	v := &Validator{strict: true}
	for _, option := range options {
		option(v)
	}
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(document)
	if err != nil {
		return nil, fmt.Errorf("contract: reading the document: %w", err)
	}
	if !doc.IsOpenAPI31OrLater() {
		return nil, errors.New("contract: the document is not OpenAPI 3.1")
	}
	if err := doc.Validate(context.Background(), openapi3.EnableMultiError()); err != nil {
		return nil, fmt.Errorf("contract: the document is invalid: %w", err)
	}
	v.doc = doc
	if err := v.compile(); err != nil {
		return nil, fmt.Errorf("contract: %w", err)
	}
	return v, nil
}

// Document is the document as it was read. It must not be changed.
func (v *Validator) Document() *openapi3.T { return v.doc }

// Operations returns the names of all operations, sorted.
func (v *Validator) Operations() []string { return slices.Sorted(maps.Keys(v.operations)) }

// Webhooks returns the event types that the document has a webhook for, sorted.
func (v *Validator) Webhooks() []string { return slices.Sorted(maps.Keys(v.webhooks)) }

// CheckExchange checks both sides of an exchange of an operation ("patients.create").
// The bodies are given apart, because those of the messages have been read by then; nil
// is no body.
func (v *Validator) CheckExchange(operation string, req *http.Request, reqBody []byte, resp *http.Response, respBody []byte) []Violation {
	return append(v.CheckRequest(operation, req, reqBody), v.CheckResponse(operation, resp, respBody)...)
}

// CheckRequest checks a request alone.
func (v *Validator) CheckRequest(operation string, req *http.Request, body []byte) []Violation {
	op, known := v.operations[operation]
	if !known {
		return []Violation{{operation, Request, InOperation, "", RuleUnknown}}
	}
	return v.checkRequest(op, req, body)
}

// CheckResponse checks a response alone, for requests that are wrong on purpose.
func (v *Validator) CheckResponse(operation string, resp *http.Response, body []byte) []Violation {
	op, known := v.operations[operation]
	if !known {
		return []Violation{{operation, Response, InOperation, "", RuleUnknown}}
	}
	return op.checkResponse(resp, body)
}

// CheckBody checks the JSON body of a response that was kept without its headers, such as
// a golden file.
func (v *Validator) CheckBody(operation string, status int, body []byte) []Violation {
	op, known := v.operations[operation]
	if !known {
		return []Violation{{operation, Response, InOperation, "", RuleUnknown}}
	}
	expected, known := op.answer(status)
	if !known {
		return op.unknownStatus(status)
	}
	return signed(operation, Response, expected.body.check(mediaJSON, body))
}

// CheckUnrouted checks the response to a request for something that the API does not
// have.
func (v *Validator) CheckUnrouted(resp *http.Response, body []byte) []Violation {
	if resp.StatusCode != http.StatusNotFound {
		return []Violation{{"", Response, InStatus, "", RuleUnknown}}
	}
	return v.notFound.check("", resp, body)
}

// CheckWebhook checks the delivery of an event and what the integrator answers to it.
// Without a response only the delivery is checked. The empty request that asks for the
// challenge passes.
func (v *Validator) CheckWebhook(eventType string, req *http.Request, reqBody []byte, resp *http.Response, respBody []byte) []Violation {
	op, known := v.webhooks[eventType]
	if !known {
		return []Violation{{eventType, Request, InOperation, "", RuleUnknown}}
	}
	violations := v.checkRequest(op, req, reqBody)
	if resp != nil {
		violations = append(violations, op.checkResponse(resp, respBody)...)
	}
	return violations
}

// CheckWebhookBody checks the body of a delivery that was kept without its headers.
func (v *Validator) CheckWebhookBody(eventType string, body []byte) []Violation {
	op, known := v.webhooks[eventType]
	if !known {
		return []Violation{{eventType, Request, InOperation, "", RuleUnknown}}
	}
	return signed(eventType, Request, op.request.check(mediaJSON, body))
}
