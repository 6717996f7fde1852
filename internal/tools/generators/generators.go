// Package generators pins the version of the Go client generator and the imports of generated
// code. The script .ci/generators runs the generator.
package generators

import (
	_ "github.com/oapi-codegen/runtime" // for generated code
)
