package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// contract returns the OpenAPI 3.1 document of the API.
var contract = sync.OnceValue(func() []byte { return []byte(writeContract(Operations())) })

func serveContract(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, "application/yaml", contract())
}

// writer builds the OpenAPI document from the routes and their structs.
type writer struct {
	out     strings.Builder
	schemas []reflect.Type // types of the components, in order of first use
}

func (w *writer) line(depth int, format string, args ...any) {
	fmt.Fprintf(&w.out, strings.Repeat("  ", depth)+format+"\n", args...)
}

const contractHead = `openapi: 3.1.0
info:
  title: Fake dispensary platform, control API
  version: "1"
  description: >-
    Controls a fake platform from any language. Only callers on the same
    machine have access. Web pages have none.
  contact:
    name: The dispensary project
    url: https://github.com/dispensary-go/dispensary
  license:
    name: MIT
    identifier: MIT
servers:
  - url: /control
    description: On the server of the console. settings.get returns the full URL.
# Only callers on the same machine have access, so the API needs no credentials.
security: []`

// groups describes the tags of the document. A tag is the first word of an operation's id.
var groups = map[string]string{
	"application": "The registered application.",
	"clinic_keys": "The clinic keys of the application.",
	"clock":       "The clock of the platform. It can be frozen and advanced.",
	"credentials": "All tokens and open authorization codes.",
	"deliveries":  "Deliveries of events to the webhook endpoint.",
	"events":      "Events on the platform.",
	"faults":      "Simulated failures of requests and deliveries.",
	"journal":     "Requests to the platform, and checks of them.",
	"orders":      "Orders of patients.",
	"patients":    "The patients of all clinics.",
	"plans":       "Treatment plans.",
	"platform":    "Actions of patients, practitioners and clinics on the platform.",
	"products":    "The products of the catalog.",
	"settings":    "URLs, credentials and accounts.",
	"behaviors":   "Undocumented behaviors of the dispensary's API, and the variant in use.",
	"skips":       "Events that were not sent, with the reason.",
	"tokens":      "Access tokens.",
	"webhook":     "The endpoint for events.",
}

// group returns the tag of an operation.
func group(op Operation) string {
	name, _, _ := strings.Cut(op.ID, ".")
	return name
}

func writeContract(operations []Operation) string {
	w := &writer{}
	w.line(0, contractHead)
	var paths, tags []string
	for _, op := range operations {
		if !slices.Contains(paths, op.Path) {
			paths = append(paths, op.Path)
		}
		if !slices.Contains(tags, group(op)) {
			tags = append(tags, group(op))
		}
	}
	w.line(0, "tags:")
	for _, tag := range tags {
		w.line(1, "- name: %s", tag)
		w.line(2, "description: %s", strconv.Quote(groups[tag]))
	}
	w.line(0, "paths:")
	for _, path := range paths {
		w.line(1, "%s:", path)
		for _, op := range operations {
			if op.Path == path {
				w.operation(op)
			}
		}
	}
	w.line(0, "components:")
	w.line(1, "responses:")
	w.line(2, "Refused:")
	w.line(3, `description: "403 for other machines and sites, 404 for unknown ids and paths, 409 for a wrong state, 413 and 415 for a wrong body, 422 for invalid values."`)
	w.line(3, "content: {application/json: {schema: {type: object, properties: {error: {type: string}}, required: [error]}}}")
	w.line(1, "schemas:")
	for i := 0; i < len(w.schemas); i++ { // component appends nested types
		w.component(w.schemas[i])
	}
	return w.out.String()
}

func (w *writer) operation(op Operation) {
	w.line(2, "%s:", strings.ToLower(op.Method))
	w.line(3, "operationId: %s", op.ID)
	w.line(3, "summary: %s", strconv.Quote(op.Summary))
	w.line(3, "tags: [%s]", group(op))
	if parameters := op.Parameters(); len(parameters)+len(op.Query) > 0 {
		w.line(3, "parameters:")
		for _, name := range parameters {
			w.line(4, "- {name: %s, in: path, required: true, schema: {type: string}}", name)
		}
		for _, q := range op.Query {
			kind := "string"
			if q.Number {
				kind = "integer, minimum: 0"
			}
			w.line(4, "- {name: %s, in: query, description: %s, schema: {type: %s}}", q.Name, strconv.Quote(q.Summary), kind)
		}
	}
	if op.Body != nil {
		w.line(3, "requestBody:")
		w.line(4, "content: {application/json: {schema: %s}}", w.schema(op.Body))
	}
	w.line(3, "responses:")
	w.line(4, `"200":`)
	w.line(5, "description: Done")
	w.line(5, "content: {%s: {schema: %s}}", jsonMedia, w.response(op))
	w.line(4, "4XX: {$ref: '#/components/responses/Refused'}")
}

// response returns the schema of a response.
func (w *writer) response(op Operation) string {
	schema := w.schema(op.response)
	if op.key != "" {
		return fmt.Sprintf("{type: object, properties: {%s: %s, next: {type: [string, 'null']}, total: {type: integer}}, required: [%s, next, total]}", op.key, schema, op.key)
	}
	return schema
}

// schema returns the schema of a type in YAML flow style. It records structs as components.
func (w *writer) schema(t reflect.Type) string {
	switch {
	case t == timeType:
		return "{type: [string, 'null'], format: date-time}"
	case t == centsType:
		return `{type: string, examples: ["19.99"]}`
	case t == reflect.TypeFor[json.RawMessage]():
		return "{}"
	case t == durationType:
		return "{type: string, examples: [1m30s]}"
	case t == reflect.TypeFor[[]byte]():
		return "{type: string}"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "{anyOf: [" + w.schema(t.Elem()) + ", {type: 'null'}]}"
	case reflect.Slice:
		return "{type: array, items: " + w.schema(t.Elem()) + "}"
	case reflect.Struct:
		if !slices.Contains(w.schemas, t) {
			w.schemas = append(w.schemas, t)
		}
		return "{$ref: '#/components/schemas/" + component(t) + "'}"
	case reflect.Bool:
		return "{type: boolean}"
	case reflect.String:
		return "{type: string}"
	case reflect.Float64:
		return "{type: number}"
	default:
		return "{type: integer}"
	}
}

func (w *writer) component(t reflect.Type) {
	w.line(2, "%s:", component(t))
	w.line(3, "type: object")
	fields := fieldsOf(t)
	if len(fields) == 0 {
		return
	}
	w.line(3, "properties:")
	for _, f := range fields {
		w.line(4, "%s: %s", f.name, w.schema(f.kind))
	}
}

// component returns the name of a type in the document.
func component(t reflect.Type) string {
	first, size := utf8.DecodeRuneInString(t.Name())
	return string(unicode.ToUpper(first)) + t.Name()[size:]
}
