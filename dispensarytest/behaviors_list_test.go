package dispensarytest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// There is a constant for every variant, and none for anything else.
func TestBehaviorConstantsAreTheVariants(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "behaviors_list.go", nil, 0)
	require.NoError(t, err)
	var constants, variants []string
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok {
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			constants = append(constants, text)
		}
		return true
	})
	for _, choice := range BehaviorChoices() {
		for _, v := range choice.Variants {
			variants = append(variants, string(v.Behavior))
		}
	}
	assert.ElementsMatch(t, variants, constants)
}
