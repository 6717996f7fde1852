package dispensary_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// A command of a page: a code span, or an indented line. `cd` sets the folder.
	pageCommand = regexp.MustCompile("(?m)`((?:cd |go test )[^`]*)`|^    (go test .*)$")
	testPattern = regexp.MustCompile(` -(run|bench|fuzz) ('[^']*'|\S+)`)
	testName    = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w*)\(`)
)

// Every command of a page that selects tests runs at least one.
func TestCommandsOfPagesRunTests(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	checked := 0
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md", "AGENTS.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, found := range pageCommand.FindAllStringSubmatch(strings.ReplaceAll(string(text), `\|`, "|"), -1) {
			folder := "."
			for command := range strings.SplitSeq(found[1]+found[2], "&&") {
				command, _, _ = strings.Cut(strings.TrimSpace(command), "#")
				if to, isCD := strings.CutPrefix(command, "cd "); isCD {
					folder = strings.TrimSpace(to)
				}
				for _, selected := range testPattern.FindAllStringSubmatch(" "+command, -1) {
					pattern := strings.Trim(selected[2], "'")
					if strings.HasPrefix(command, "go test ") && pattern != "^$" {
						assert.NotEmpty(t, testsOf(t, folder, command, selected[1], pattern), "%s: %s", page, command)
						checked++
					}
				}
			}
		}
	}
	assert.Greater(t, checked, 7)
}

// testsOf lists the tests that a command would run in its folder.
func testsOf(t *testing.T, folder, command, flag, pattern string) (names []string) {
	t.Helper()
	prefix := map[string]string{"run": "Test", "bench": "Benchmark", "fuzz": "Fuzz"}[flag]
	of := filepath.Join(folder, ".")
	for _, word := range strings.Fields(command) {
		if strings.HasPrefix(word, "./") {
			of = filepath.Join(folder, word)
		}
	}
	files, err := filepath.Glob(filepath.Join(of, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range testName.FindAllStringSubmatch(string(source), -1) {
			if strings.HasPrefix(name[1], prefix) && regexp.MustCompile(strings.Split(pattern, "/")[0]).MatchString(name[1]) {
				names = append(names, name[1])
			}
		}
	}
	return names
}
