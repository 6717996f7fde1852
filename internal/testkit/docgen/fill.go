package docgen

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
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

// example is an Example… function of a test file.
type example struct {
	Code      string   // function body
	Output    string   // expected output, or "" if tests do not run the example
	Unordered bool     // the lines of Output may have any order
	File      string   // path from the root of the tree
	Imports   []string // import paths of the packages in Code
}

// find returns the example with a name, such as ExampleNew, of the package in a folder. It
// returns nil if there is none.
func (t *Tree) find(folder, name string) *example {
	p, file, f := t.function(folder, name)
	if f == nil || !strings.HasPrefix(name, "Example") {
		return nil
	}
	return t.read(p, file, f)
}

// fileOf returns the source of the file that declares an example, a test or the main function
// of a program. It returns "" if there is none.
func (t *Tree) fileOf(folder, name string) string {
	p, file, f := t.function(folder, name)
	if f == nil || !regexp.MustCompile(`^(Example|Test|main$)`).MatchString(name) {
		return ""
	}
	return string(p.sources[file])
}

// function returns a function of the package in a folder, with its package and file name. It
// returns nil if there is none.
func (t *Tree) function(folder, name string) (*goPackage, string, *ast.FuncDecl) {
	p := t.byPath[path.Join(Module, folder)]
	if p == nil {
		return nil, "", nil
	}
	for file, parsed := range p.parsed {
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
				return p, file, f
			}
		}
	}
	return nil, "", nil
}

// outputComment matches the start of the comment with the output of an example.
var outputComment = regexp.MustCompile(`(?im)^[ \t]*//[ \t]*(unordered )?output:`)

func (t *Tree) read(p *goPackage, file string, f *ast.FuncDecl) *example {
	body := t.source(p, file, f.Body.Lbrace+1, f.Body.Rbrace)
	if at := outputComment.FindAllStringIndex(body, -1); at != nil {
		body = body[:at[len(at)-1][0]]
	}
	e := &example{File: file}
	e.Code = strings.Trim(strings.ReplaceAll("\n"+body, "\n\t", "\n"), "\n\t ") + "\n"
	imported, used := importsOf(p.parsed[file]), map[string]bool{}
	for node := range ast.Preorder(f.Body) {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if name, ok := selector.X.(*ast.Ident); ok && imported[name.Name] != "" {
				used[imported[name.Name]] = true
			}
		}
	}
	e.Imports = slices.Sorted(maps.Keys(used))
	for _, printed := range doc.Examples(p.parsed[file]) {
		if "Example"+printed.Name == f.Name.Name {
			e.Output, e.Unordered = printed.Output, printed.Unordered
		}
	}
	return e
}

// importsOf returns the import paths of a file, keyed by the package names in the file.
func importsOf(file *ast.File) map[string]string {
	imported := map[string]string{}
	for _, spec := range file.Imports {
		importPath, _ := strconv.Unquote(spec.Path.Value)
		imported[importName(spec, importPath)] = importPath
	}
	return imported
}

// importName returns the package name of an import in its file.
func importName(spec *ast.ImportSpec, importPath string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	base := path.Base(importPath)
	if regexp.MustCompile(`^v[0-9]+$`).MatchString(base) {
		base = path.Base(path.Dir(importPath))
	}
	return base
}

// source returns the text between two positions of a file.
func (t *Tree) source(p *goPackage, file string, from, to token.Pos) string {
	return string(p.sources[file][t.files.Position(from).Offset:t.files.Position(to).Offset])
}

// markdown returns the code and the output of the example as Markdown.
func (e *example) markdown() string {
	text := "```go\n" + e.Code + "```\n\n"
	if e.Output == "" {
		return text
	}
	title := "Output"
	if e.Unordered {
		title = "Output, in any order"
	}
	return text + title + ":\n\n```text\n" + strings.TrimSpace(e.Output) + "\n```\n\n"
}

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
