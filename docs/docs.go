// Package docs holds the pages of this folder: how things are done, what the packages
// have, and how the test platform behaves, as Markdown for GitHub. The command serves
// them as a site ("dispensary docs"), which is why they are embedded; nothing else needs
// this package.
package docs

import (
	"embed"
	"strconv"
	"strings"
	"unicode"
)

// Pages are the Markdown files of this folder: README.md is the first page, cookbook.md
// has the tasks, platform.md the test platform, reliability.md the promises and their
// tests, scale.md what a very large installation costs, and packages one file a package.
//
//go:embed *.md packages
var Pages embed.FS

// Anchors gives the headings of one page the ids that GitHub gives them. The zero value
// is ready for a page.
type Anchors struct{ taken map[string]int }

// ID returns the id of the next heading, whose text it is given.
func (a *Anchors) ID(heading string) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_', r == '-':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		default:
			return -1
		}
	}, strings.TrimSpace(heading))
	if a.taken == nil {
		a.taken = map[string]int{}
	}
	n := a.taken[id]
	a.taken[id]++
	if n == 0 {
		return id
	}
	return id + "-" + strconv.Itoa(n)
}
