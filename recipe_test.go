package dispensary_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	firstChange = regexp.MustCompile(`(?s)\n## A good first change\n(.*?)\n\*\*Add an endpoint`)
	pageFile    = regexp.MustCompile("`([a-z_/]+\\.(?:go|yaml))`")
	oneField    = regexp.MustCompile(`MobileNumber|mobile_number`)
)

// CONTRIBUTING.md lists the files of a new field. This test follows an existing one. If it fails,
// let an owner of the field serve the new file, or change the page.
func TestFirstChangeListsFilesOfField(t *testing.T) {
	t.Parallel()
	const most = 12
	page, err := os.ReadFile("CONTRIBUTING.md")
	require.NoError(t, err)
	section := firstChange.FindSubmatch(page)
	require.NotNil(t, section)
	var listed []string
	for _, file := range pageFile.FindAllSubmatch(section[1], -1) {
		listed = append(listed, string(file[1]))
	}
	files := filesWith(t, oneField)
	assert.ElementsMatch(t, files, listed, "files that name the field, and files in CONTRIBUTING.md")
	assert.LessOrEqual(t, len(files), most, "files of one field")
}

// filesWith returns the files with a match, without pages, tests and golden files.
func filesWith(t *testing.T, match *regexp.Regexp) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case entry.IsDir():
			if strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"dist", "docs", "node_modules", "testdata"}, entry.Name()) {
				return filepath.SkipDir
			}
		case !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(name, ".md") && entry.Type().IsRegular():
			text, err := os.ReadFile(name)
			if err == nil && match.Match(text) && !bytes.ContainsRune(text, 0) {
				files = append(files, filepath.ToSlash(name))
			}
			return err
		}
		return nil
	}))
	return files
}
