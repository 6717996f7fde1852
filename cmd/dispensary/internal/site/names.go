package site

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
)

// entry is a name or a task, on the page with all of them.
type entry struct {
	Name    string // what it is looked for by: webhook.Alarm, or the words of a heading
	Link    string // from the root of the site
	Page    string // the title of its page
	Summary string // the first paragraph
	Also    string // other words to find it by: the fields of a struct
}

// letter groups the entries that begin with it.
type letter struct {
	Letter, ID string
	Entries    []entry
}

// names makes the page with all names and tasks, by letters.
func names(pages []*page) *page {
	var all []entry
	for _, p := range pages {
		all = append(all, p.entries...)
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(strings.Compare(key(a), key(b)), strings.Compare(a.Name, b.Name))
	})
	index := &page{Name: indexPage, Title: "All names and tasks"}
	for _, e := range all {
		first := strings.ToUpper(key(e)[:1])
		if last := len(index.Index) - 1; last < 0 || index.Index[last].Letter != first {
			l := letter{Letter: first, ID: "letter-" + strings.ToLower(first)}
			index.Index = append(index.Index, l)
			index.Contents = append(index.Contents, heading{Level: 2, ID: l.ID, Text: l.Letter})
		}
		last := &index.Index[len(index.Index)-1]
		last.Entries = append(last.Entries, e)
	}
	return index
}

// key is what an entry is sorted by: its name without the package.
func key(e entry) string {
	name := e.Name
	if !strings.Contains(name, " ") {
		_, last, found := strings.Cut(name, ".")
		if found {
			name = last
		}
	}
	return strings.ToLower(strings.TrimLeftFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }))
}

// exported finds the names in a declaration: those of a group, of fields, of methods.
var exported = regexp.MustCompile(`(?m)^(?:\t|(?:const|var) )([A-Z]\w*)`)

// index notes a heading for the page with all names. The headings of a package's page
// that are the same on each are left out, but not what they stand over.
func (p *page) index(h heading, node *ast.Heading, source []byte) {
	title, isPackage := strings.CutPrefix(p.Title, "Package ")
	e := entry{Name: h.Text, Link: p.Name + "#" + h.ID, Page: p.Title}
	declared := declaredBelow(node, source)
	switch kind, symbol, _ := strings.Cut(h.Text, " "); {
	case h.Level == 1:
		e.Link = p.Name
		if isPackage {
			e.Name = title
		}
	case !isPackage:
	case h.Text == "Example", strings.HasPrefix(h.Text, "Example:"), strings.HasPrefix(h.Text, "Example of "), h.Text == "Functions", h.Text == "Types":
		return
	case h.Text == "Constants" || h.Text == "Variables":
		for _, name := range declared {
			p.entries = append(p.entries, entry{Name: path.Base(title) + "." + name, Link: e.Link, Page: p.Title})
		}
		return
	case h.Level > 2 && (kind == "type" || kind == "func"):
		e.Name = path.Base(title) + "." + symbol
	case h.Level > 2 && symbol == "":
		e.Name = path.Base(title) + "." + h.Text
	}
	if h.Level > 2 && isPackage {
		e.Also = strings.Join(declared, " ")
	}
	e.Summary = summary(node, source)
	p.entries = append(p.entries, e)
}

// declaredBelow are the names declared in the code between a heading and the next one.
func declaredBelow(node *ast.Heading, source []byte) (names []string) {
	for next := node.NextSibling(); next != nil && next.Kind() != ast.KindHeading; next = next.NextSibling() {
		if next.Kind() == ast.KindFencedCodeBlock {
			for _, match := range exported.FindAllSubmatch(next.Lines().Value(source), -1) {
				names = append(names, string(match[1]))
			}
		}
	}
	return names
}

// summary is the first paragraph below a heading, cut to what fits a list.
func summary(node *ast.Heading, source []byte) string {
	const most = 200
	for next := node.NextSibling(); next != nil && next.Kind() != ast.KindHeading; next = next.NextSibling() {
		if next.Kind() != ast.KindParagraph {
			continue
		}
		words := []rune(string(textOf(next, source)))
		if len(words) > most {
			return string(words[:most]) + "…"
		}
		return string(words)
	}
	return ""
}
