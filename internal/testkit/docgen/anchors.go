package docgen

import (
	"strconv"
	"strings"
	"unicode"
)

// Anchors assigns the same IDs as GitHub to the headings of one page. The zero value is ready
// for use.
type Anchors struct{ taken map[string]int }

// ID returns the ID of the next heading. It numbers repeated headings.
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
