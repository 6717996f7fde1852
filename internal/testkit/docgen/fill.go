package docgen

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A generated part of a page begins with an example, tasks or links comment and ends with
// <!-- end -->. Any other Go block needs a comment before it:
//
//   - <!-- excerpt: FOLDER NAME -->: the block contains lines, in order, of the file that
//     declares the function NAME. The function is an example, a test or the main of a program.
//   - <!-- test: FOLDER NAME -->: the block is a program that the test NAME builds.
var (
	generated = regexp.MustCompile(`(?s)<!-- (example|tasks|links)(?:: (\S+) (\w+))? -->\n.*?<!-- end -->\n`)
	excerpt   = regexp.MustCompile("(?s)<!-- (excerpt|test): (\\S+) (\\w+) -->\n+```go\n(.*?)```\n")
	goBlock   = regexp.MustCompile("(?s)```go\n.*?```\n")
	anyBlock  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// Fill returns the text of a page with its generated parts replaced. name is the path of the
// page below the root. Fill changes no other text. It fails if a Go block has none of the
// comments above, if an excerpt differs from its file, or if a named function, package or
// symbol does not exist.
func (t *Tree) Fill(name, text string) (string, error) {
	f := &filler{tree: t, folder: path.Dir(name), text: text}
	text = generated.ReplaceAllStringFunc(text, func(part string) string {
		match := generated.FindStringSubmatch(part)
		head, _, _ := strings.Cut(part, "\n")
		return head + "\n\n" + f.part(match[1], match[2], match[3]) + "\n<!-- end -->\n"
	})
	written := excerpt.ReplaceAllStringFunc(generated.ReplaceAllString(text, ""), func(part string) string {
		match := excerpt.FindStringSubmatch(part)
		f.check(match[2], match[3], match[1], match[4])
		return ""
	})
	for _, block := range goBlock.FindAllString(written, -1) {
		f.fail("Go block without an example, excerpt or test comment:\n%s", block)
	}
	if err := errors.Join(f.problems...); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

type filler struct {
	tree     *Tree
	folder   string // folder of the page
	text     string
	problems []error
}

func (f *filler) fail(format string, args ...any) {
	f.problems = append(f.problems, fmt.Errorf(format, args...))
}

func (f *filler) part(kind, folder, name string) string {
	switch kind {
	case "example":
		return f.example(folder, name)
	case "tasks":
		return f.tasks()
	default:
		return f.links()
	}
}

// example returns an example as Markdown. The example must have an output, and may import only
// packages available to readers.
func (f *filler) example(folder, name string) string {
	e := f.tree.find(folder, name)
	if e == nil {
		f.fail("no %s in %s", name, folder)
		return ""
	}
	if e.Output == "" {
		f.fail("%s in %s has no Output comment", name, folder)
	}
	var imports []string
	for _, importPath := range e.Imports {
		switch p := f.tree.public(importPath); {
		case p != nil:
			imports = append(imports, "`"+p.title()+"`")
		case strings.HasPrefix(importPath, Module+"/"):
			f.fail("%s in %s uses %s: readers cannot import it", name, folder, importPath)
		case strings.Contains(importPath, "."):
			imports = append(imports, "`"+importPath+"`")
		}
	}
	source := fmt.Sprintf("Source: [%s](%s).\n", e.File, f.relative(e.File))
	if len(imports) > 0 {
		source = "Packages: " + strings.Join(imports, ", ") + ". " + source
	}
	return e.markdown() + source
}

// tasks returns a list of the second-level and third-level headings.
func (f *filler) tasks() string {
	var out strings.Builder
	var anchors Anchors
	for line := range strings.SplitSeq(anyBlock.ReplaceAllString(f.text, ""), "\n") {
		marks, heading, _ := strings.Cut(line, " ")
		if marks == "" || strings.Trim(marks, "#") != "" {
			continue
		}
		id := anchors.ID(heading)
		switch marks {
		case "##":
			fmt.Fprintf(&out, "- [%s](#%s)\n", heading, id)
		case "###":
			fmt.Fprintf(&out, "  - [%s](#%s)\n", heading, id)
		}
	}
	return out.String()
}

// nameInBrackets matches a link to a package or to one of its names in a documentation comment.
var nameInBrackets = regexp.MustCompile(`\[([a-z]+)((?:\.[A-Z]\w*){0,2})\]`)

// links returns the link definitions of the names in brackets.
func (f *filler) links() string {
	definitions := map[string]bool{}
	prose := anyBlock.ReplaceAllString(generated.ReplaceAllString(f.text, ""), "")
	for _, match := range nameInBrackets.FindAllStringSubmatch(prose, -1) {
		name := strings.TrimPrefix(match[2], ".")
		importPath, found := f.tree.named(match[1])
		if !found && name == "" {
			continue // not a link
		}
		p := f.tree.byPath[importPath]
		if !found || name != "" && !p.symbols[name] {
			f.fail("no package declares %s", match[0])
			continue
		}
		if name != "" {
			name = "#" + name
		}
		definitions[fmt.Sprintf("%s: https://pkg.go.dev/%s%s\n", match[0], importPath, name)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(definitions)), "")
}

// check reports a problem if an excerpt differs from its file. If the test builds the block as a
// program, check only requires the test to exist.
func (f *filler) check(folder, name, kind, text string) {
	source := f.tree.fileOf(folder, name)
	if source == "" {
		f.fail("no %s in %s", name, folder)
		return
	}
	if kind == "test" {
		return
	}
	rest := strings.Split(source, "\n")
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line == "…" {
			continue
		}
		at := slices.IndexFunc(rest, func(of string) bool { return strings.TrimSpace(of) == line })
		if at < 0 {
			f.fail("the file of %s in %s does not contain this line at this position: %s", name, folder, line)
			return
		}
		rest = rest[at+1:]
	}
}

// relative returns the path from the page to a file of the tree.
func (f *filler) relative(file string) string {
	relative, err := filepath.Rel(f.folder, file)
	if err != nil {
		f.problems = append(f.problems, err)
	}
	return filepath.ToSlash(relative)
}
