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

// The parts of a page that are generated stand between one of these comments and
// <!-- end -->. A Go block elsewhere is an excerpt: some lines, in order, of the file that
// has a function, which the comment <!-- excerpt: FOLDER NAME --> before it names. The
// function is an example, a test, or the main of a program. Or it is a program that the
// test builds which <!-- test: FOLDER NAME --> names.
var (
	generated = regexp.MustCompile(`(?s)<!-- (example|tasks|links)(?:: (\S+) (\w+))? -->\n.*?<!-- end -->\n`)
	excerpt   = regexp.MustCompile("(?s)<!-- (excerpt|test): (\\S+) (\\w+) -->\n+```go\n(.*?)```\n")
	goBlock   = regexp.MustCompile("(?s)```go\n.*?```\n")
	anyBlock  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// Fill writes the generated parts of a page anew. The page is a file of the tree, below
// root; the rest of it is as people wrote it. It fails if a Go block in it is neither an
// example nor an excerpt of one, and if it names what does not exist.
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
		f.fail("a Go block is no example:\n%s", block)
	}
	if err := errors.Join(f.problems...); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

type filler struct {
	tree     *Tree
	folder   string // of the page
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

// example shows an example, which has to be one that is run, and that readers can copy.
func (f *filler) example(folder, name string) string {
	e := f.tree.find(folder, name)
	if e == nil {
		f.fail("there is no %s in %s", name, folder)
		return ""
	}
	if e.Output == "" {
		f.fail("%s in %s has no output that is checked", name, folder)
	}
	var imports []string
	for _, importPath := range e.Imports {
		switch p := f.tree.public(importPath); {
		case p != nil:
			imports = append(imports, "`"+p.title()+"`")
		case strings.HasPrefix(importPath, Module+"/"):
			f.fail("%s in %s uses %s, which readers cannot import", name, folder, importPath)
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

// tasks lists the headings of the second and third level.
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

// nameInBrackets is a package, or one of its names, as documentation comments link to it.
var nameInBrackets = regexp.MustCompile(`\[([a-z]+)((?:\.[A-Z]\w*){0,2})\]`)

// links defines where the names in brackets lead.
func (f *filler) links() string {
	definitions := map[string]bool{}
	prose := anyBlock.ReplaceAllString(generated.ReplaceAllString(f.text, ""), "")
	for _, match := range nameInBrackets.FindAllStringSubmatch(prose, -1) {
		name := strings.TrimPrefix(match[2], ".")
		importPath, found := f.tree.named(match[1])
		if !found && name == "" {
			continue // other brackets
		}
		p := f.tree.byPath[importPath]
		if !found || name != "" && !p.symbols[name] {
			f.fail("there is no %s", match[0])
			continue
		}
		if name != "" {
			name = "#" + name
		}
		definitions[fmt.Sprintf("%s: https://pkg.go.dev/%s%s\n", match[0], importPath, name)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(definitions)), "")
}

// check holds an excerpt to its file. Of a program that is built it is enough that the
// test is there.
func (f *filler) check(folder, name, kind, text string) {
	source := f.tree.fileOf(folder, name)
	if source == "" {
		f.fail("there is no %s in %s", name, folder)
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
			f.fail("the file of %s in %s has no such line, or not there: %s", name, folder, line)
			return
		}
		rest = rest[at+1:]
	}
}

// relative leads from the page to a file of the tree.
func (f *filler) relative(file string) string {
	relative, err := filepath.Rel(f.folder, file)
	if err != nil {
		f.problems = append(f.problems, err)
	}
	return filepath.ToSlash(relative)
}
