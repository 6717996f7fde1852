// Package contract compares the published OpenAPI document with the table of operations, the fake
// platform, the client and recorded bodies. It is in a separate module, so that programs with the
// client do not get its dependencies.
//
// The Validator of its tests reads the document and reports violations in requests and responses:
//
//	v, err := contract.Load()
//	for _, violation := range v.CheckExchange("patients.get", exchange) {
//		t.Error(violation)
//	}
//
// The published document is open: the platform may add keys to its responses. Load closes
// every object first, because a check against an open document finds no misspelled key.
//
// The document is OpenAPI 3.1 with schemas of JSON Schema 2020-12. github.com/getkin/kin-openapi
// reads and validates the document and decodes parameters. Bodies go directly to
// github.com/santhosh-tekuri/jsonschema, the engine of kin-openapi for 3.1. The reason is that
// kin-openapi compiles a schema for each body, and falls back to the rules of OpenAPI 3.0 if the
// engine rejects a schema. Load fails on such a schema.
package contract
