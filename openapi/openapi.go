// Package openapi contains the dispensary integration API, version 2, as an OpenAPI 3.1
// document in YAML: all 61 operations, the authorize page, the webhooks of all 11 event types,
// and the errors. Generate clients, mocks or documentation from it, in Go or other languages.
// The client of this module does not need it.
//
//	err := os.WriteFile("dispensary.yaml", openapi.Document(), 0o644)
//
// The document marks everything that the platform does not document. x-assumption marks an
// assumption from experience with similar services and gives its reason. x-scope-assumed marks
// an operation with a scope that is inferred from the scopes' descriptions.
//
// Objects in the document are open, because the platform may add keys to its responses at any
// time. The tests of this repository close all objects, and compare the document with the
// client's table of operations and with the fake platform of package dispensarytest.
package openapi

import (
	"bytes"
	_ "embed"
)

//go:embed dispensary.yaml
var document []byte

// Document returns the OpenAPI document as UTF-8 YAML. Every call returns a new copy.
func Document() []byte { return bytes.Clone(document) }
