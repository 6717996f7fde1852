package behavior_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
)

// Each variant except the defaults has a constant. Its name begins with the name of the
// choice.
func TestVariantsHaveConstants(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "variants.go", nil, 0)
	require.NoError(t, err)
	var constants, variants []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			constants = append(constants, text)
			choice, _, _ := strings.Cut(text, "=")
			assert.True(t, strings.HasPrefix(strings.ToLower(spec.Names[0].Name), strings.ReplaceAll(choice, "-", "")), spec.Names[0].Name)
		}
		return true
	})
	for _, choice := range behavior.Choices() {
		for _, v := range choice.Variants[1:] {
			variants = append(variants, string(v))
		}
	}
	assert.ElementsMatch(t, variants, constants)
}

func TestChoicesAreDescribed(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	choices := behavior.Choices()
	assert.True(t, slices.IsSortedFunc(choices, func(a, b behavior.Choice) int { return strings.Compare(a.Name, b.Name) }))
	for _, c := range choices {
		assert.False(t, names[c.Name], c.Name)
		names[c.Name] = true
		assert.NotEmpty(t, c.Section, c.Name)
		assert.NotEmpty(t, c.Why, c.Name)
		assert.Greater(t, len(c.Variants), 1, c.Name)
		for _, v := range c.Variants {
			assert.Equal(t, c.Name+"="+v.Name(), string(v))
			assert.NotEmpty(t, v.Meaning(), v)
		}
	}
	assert.Empty(t, behavior.Variant("probe=never").Meaning())
}

func TestChoicesReturnsCopies(t *testing.T) {
	t.Parallel()
	behavior.Choices()[0].Variants[0] = "x=y"
	assert.NotEqual(t, behavior.Variant("x=y"), behavior.Choices()[0].Variants[0])
}
