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

// contract returns the API's OpenAPI 3.1 document.
var contract = sync.OnceValue(func() []byte { return []byte(writeContract(Operations())) })

func serveContract(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, "application/yaml", contract())
}

// writer writes the OpenAPI document from the route table and its structs.
type writer struct {
	out     strings.Builder
	schemas []reflect.Type // of the components, in the order they were met
}

func (w *writer) line(depth int, format string, args ...any) {
	fmt.Fprintf(&w.out, strings.Repeat("  ", depth)+format+"\n", args...)
}

const contractHead = `openapi: 3.1.0
info:
  title: Dispensary test platform, control API
  version: "1"
  description: >-
    Drives a test platform from any language. It answers callers on the same
    machine alone, and no web page.
  contact:
    name: The dispensary project
    url: https://github.com/dispensary-go/dispensary
  license:
    name: MIT
    identifier: MIT
servers:
  - url: /control
    description: Beside the console; settings.get names the whole address.
# Callers on the same machine need no credentials, and no others are answered.
security: []`

// groups describes the first words of the operations' ids, which are their tags.
var groups = map[string]string{
	"application": "The application that integrators register.",
	"clinic_keys": "The keys that clinics gave the application.",
	"clock":       "The time of the platform, which can stand still and be advanced.",
	"credentials": "Every token and open authorization code.",
	"deliveries":  "What became of sending events to the webhook endpoint.",
	"events":      "What happened on the platform.",
	"faults":      "What is to go wrong with requests and deliveries.",
	"journal":     "The requests that the platform was sent, and checks of them.",
	"orders":      "What patients ordered.",
	"patients":    "The patients of all clinics.",
	"plans":       "Treatment plans.",
	"platform":    "What people do on the platform itself.",
	"products":    "The products of the catalog.",
	"settings":    "Addresses, credentials and accounts.",
	"behaviors":   "The points that the dispensary's API leaves open, and how the platform decides them.",
	"skips":       "Events that were not sent, and why.",
	"tokens":      "Access tokens.",
	"webhook":     "The endpoint that events are sent to.",
}

// group is the tag of an operation.
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
	w.line(3, `description: "403 for other sites, 404 for ids and paths, 409 for states, 413 and 415 for bodies, 422 for values."`)
	w.line(3, "content: {application/json: {schema: {type: object, properties: {error: {type: string}}, required: [error]}}}")
	w.line(1, "schemas:")
	for i := 0; i < len(w.schemas); i++ { // grows on the way
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
	w.line(5, "content: {%s: {schema: %s}}", jsonMedia, w.answer(op))
	w.line(4, "4XX: {$ref: '#/components/responses/Refused'}")
}

// answer is the schema of an answer.
func (w *writer) answer(op Operation) string {
	schema := w.schema(op.answer)
	if op.key != "" {
		return fmt.Sprintf("{type: object, properties: {%s: %s, next: {type: [string, 'null']}, total: {type: integer}}, required: [%s, next, total]}", op.key, schema, op.key)
	}
	return schema
}

// schema is a type in flow style.
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

// component is the name of a type in the document.
func component(t reflect.Type) string {
	first, size := utf8.DecodeRuneInString(t.Name())
	return string(unicode.ToUpper(first)) + t.Name()[size:]
}
