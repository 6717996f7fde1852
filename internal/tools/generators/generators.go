// Package generators pins the generator of clients in Go, and what generated code
// imports; .ci/generators runs it.
package generators

import (
	_ "github.com/oapi-codegen/runtime" // imported by generated code
)
