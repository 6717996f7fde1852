// Package contract holds the sides of the project to the published OpenAPI
// document: the table of operations, the fake platform, the client, and recorded
// bodies. It is a separate module, so that programs that import the client do not get
// its dependencies.
//
// A [Validator] reads the document and says in which places an exchange of request
// and response departs from it:
//
//	v, err := contract.Load()
//	for _, violation := range v.CheckExchange("patients.get", req, nil, resp, body) {
//		t.Error(violation)
//	}
//
// Violations name places and rules, never values, so that they can be printed
// wherever patients' data was checked.
//
// # Strictness
//
// The published document is open: the platform may add keys to its answers. A check
// against an open document finds no misspelt key, so Load closes every object first.
// [Open] leaves the document as it is published.
//
// # Which validator
//
// The document is OpenAPI 3.1, whose schemas are JSON Schema 2020-12: arrays of types,
// const, null. github.com/getkin/kin-openapi (MIT, released regularly, 3.1 since 2026)
// reads and validates the document, and decodes parameters. Bodies go to
// github.com/santhosh-tekuri/jsonschema (Apache 2.0), which is the engine kin-openapi
// uses for 3.1 itself. They go there directly, because kin-openapi compiles a schema anew
// for every body, which takes milliseconds in place of microseconds, and falls back to its
// rules of OpenAPI 3.0 where the engine refuses a schema, without a word. Here a schema
// that does not compile fails Load.
//
// github.com/pb33f/libopenapi-validator and github.com/speakeasy-api/openapi read 3.1 as
// well. They were left out because their current releases needed modules that the Go
// module proxy did not serve when the choice was made.
package contract
