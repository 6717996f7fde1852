package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shown matches a call of the command in a page: a line of a block, or inline code.
var shown = regexp.MustCompile("(?m)(?:^(?:\\$ )?|`)dispensary ([a-z][^`\n#]*)")

// Calls of the command in pages must name existing commands and flags.
func TestPagesNameExistingCommands(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	root := bare(t).program(nil, nil, nil).root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	calls := 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md", "../../oauth/sqlstore/README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, call := range shown.FindAllStringSubmatch(string(text), -1) {
			args := strings.Fields(strings.TrimSpace(call[1]))
			command, rest, err := root.Find(args)
			if !assert.NoError(t, err, "%s: %s", page, call[0]) || !assert.NotEqual(t, root, command, "%s: %s", page, call[0]) {
				continue
			}
			if end := slices.Index(rest, "--"); end >= 0 { // the command of dev
				rest = rest[:end]
			}
			for _, arg := range rest {
				if name, isFlag := strings.CutPrefix(arg, "--"); isFlag {
					name, _, _ = strings.Cut(name, "=")
					assert.NotNil(t, command.Flag(name), "%s: %s", page, call[0])
				}
			}
			calls++
		}
	}
	assert.Greater(t, calls, 30)
}
