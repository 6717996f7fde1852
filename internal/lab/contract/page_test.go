package contract_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// The tables of docs/platform.md list exactly the operations, open points and faults of the
// platform.
func TestPlatformPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/platform.md")
	require.NoError(t, err)
	var listed []string
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|(.*)$").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, row[1])
		rows[row[1]] = strings.ReplaceAll(row[2], `\|`, "|")
	}
	known := slices.Collect(maps.Keys(exercises))
	for name, op := range loaded(t).Rows() {
		assert.Contains(t, rows[name], "`"+op.Method+" "+op.Route+"`", name)
		if op.Scopes != "" && exercises[name].scopes == nil { // the same for every request
			assert.Contains(t, rows[name], "`"+strings.ReplaceAll(op.Scopes, " ", "` `")+"`", name)
		}
	}
	for _, choice := range behavior.Choices() {
		known = append(known, choice.Name)
		assert.Contains(t, rows[choice.Name], choice.Section+" | "+choice.Why, choice.Name)
		assert.Contains(t, rows[choice.Name], "**`"+choice.Variants[0].Name()+"`**", choice.Name)
		for _, variant := range choice.Variants {
			assert.Contains(t, rows[choice.Name], "`"+variant.Name()+"`", choice.Name)
			assert.Contains(t, rows[choice.Name], ": "+variant.Meaning(), choice.Name)
		}
	}
	for _, effect := range model.Effects() {
		known = append(known, string(effect))
	}
	assert.ElementsMatch(t, known, listed)
}
