package docgen_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/docgen"
)

var (
	code    = regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?m:^\[[^\]]+\]: (\S+)$)|src="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

func TestPagesLinkToExistingTargets(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, page := range pages {
			for _, target := range relativeLinks(t, page) {
				checked++
				file, fragment, _ := strings.Cut(target, "#")
				file = filepath.Join(filepath.Dir(page), file)
				if strings.HasPrefix(target, "#") {
					file = page
				}
				_, err := os.Stat(file)
				if assert.NoError(t, err, "broken link in %s: %s", page, target) && fragment != "" && filepath.Ext(file) == ".md" {
					assert.True(t, slices.Contains(anchorsOf(t, file), fragment), "broken link in %s: %s", page, target)
				}
			}
		}
	}
	assert.Greater(t, checked, 100)
}

func relativeLinks(t *testing.T, page string) (targets []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
		if target := match[1] + match[2] + match[3]; !strings.Contains(target, "://") {
			targets = append(targets, target)
		}
	}
	return targets
}

func anchorsOf(t *testing.T, page string) (ids []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var anchors docgen.Anchors
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		ids = append(ids, anchors.ID(match[1]))
	}
	return ids
}

func TestReliabilityPageNamesTests(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(root, "docs")
	page, err := os.ReadFile(filepath.Join(folder, "reliability.md"))
	require.NoError(t, err)
	named := regexp.MustCompile(`\[(Test\w+)\]\(([^)]+)\)`).FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, named)
	for _, link := range named {
		source, err := os.ReadFile(filepath.Join(folder, link[2]))
		require.NoError(t, err)
		assert.Contains(t, string(source), "func "+link[1]+"(", link[2])
	}
}
