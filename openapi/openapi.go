// Package openapi holds the contract of the dispensary integration API, version 2,
// as an OpenAPI 3.1 document in YAML: all 61 operations, the authorize page, the
// webhooks of all 11 event types, and the errors. It serves those who generate
// clients, mocks or documentation, in Go or in other languages; the client of this
// module does not need it.
//
// The document marks what the platform does not document: places marked
// x-assumption rest on what integrators of services of this kind meet, and
// say why they are there; operations marked x-scope-assumed list a scope that
// follows from what the scopes grant.
//
// Objects in the document are open, because the platform may add keys to its
// answers at any time. The repository's own tests close them all and hold the
// client's table of operations and the fake platform of package dispensarytest to
// the document.
package openapi

import (
	"bytes"
	_ "embed"
)

//go:embed dispensary.yaml
var document []byte

// Document returns the OpenAPI document: YAML, UTF-8. Every call returns a copy of
// its own.
func Document() []byte { return bytes.Clone(document) }
