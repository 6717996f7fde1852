package sqldb

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFunctionIsOneStatement(t *testing.T) {
	t.Parallel()
	want := []string{
		"CREATE TABLE a (\n\tb integer\n)",
		"CREATE FUNCTION f() AS $$\n\tSELECT 1; SELECT 2;\n$$",
		"CREATE FUNCTION g() AS $$ SELECT 3 $$",
	}
	assert.Equal(t, want, slices.Collect(statements(strings.Join(want, ";\n\n")+";\n")))
}
