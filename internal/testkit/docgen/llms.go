package docgen

import (
	"fmt"
	"go/doc"
	"path"
	"regexp"
	"slices"
	"strings"
)

// manual lists the folders of the packages that a whole integration uses, in reading order.
var manual = []string{
	".", "api", "integration", "oauth", "oauth/accounts", "oauth/tokens", "oauth/connect", "webhook",
	"dispensarytest", "dispensarytest/receivercheck",
}

// task is a task of the cookbook: its heading, and the folder and the name of its example.
var task = regexp.MustCompile(`(?s)\n### ([^\n]+)\n(?:[^\n]*\n)*?(?:<!-- example: (\S+) (\w+) -->|<!-- command -->)\n`)

// packageHeading matches the mark of a heading in a package comment.
var packageHeading = regexp.MustCompile(`(?m)^# `)

// LLMs returns docs/llms.txt for coding agents that integrate the library. It contains the package
// comments of the manual, a line for each other package, and the tasks of the cookbook.
func (t *Tree) LLMs(cookbook string) string {
	var out strings.Builder
	fmt.Fprintf(&out, `# %s

> A Go client library for the API of a supplement dispensary: typed client, OAuth for many users, verified and
> stored webhooks, and a fake of the whole platform for tests. Read a symbol with "go doc PACKAGE.Symbol".
> "dispensary init DIR" writes a working integration with a test. Test against dispensarytest, never
> against the platform. "dispensary help --json" lists the commands.
`, Module)
	for _, folder := range manual {
		importPath := path.Join(Module, folder)
		text, _, _ := strings.Cut(t.byPath[importPath].text(), "\n# Assumptions\n") // the fake has a long list
		fmt.Fprintf(&out, "\n## %s\n\n%s", importPath, packageHeading.ReplaceAllString(text, "##$0"))
	}
	out.WriteString("\n## Other packages\n\n")
	var others []string
	for importPath, p := range t.byPath {
		if t.public(importPath) != nil && !slices.Contains(manual, p.Folder) {
			others = append(others, fmt.Sprintf("- %s: %s\n", p.Folder, new(doc.Package).Synopsis(p.text())))
		}
	}
	slices.Sort(others)
	out.WriteString(strings.Join(others, ""))
	out.WriteString("\n## Tasks\n\nEach task is an example function with checked output. docs/cookbook.md shows all of them.\n")
	var files []string
	tasks := map[string]string{} // by file
	for _, match := range task.FindAllStringSubmatch(cookbook, -1) {
		file, name := "docs/cookbook.md", ""
		if e := t.find(match[2], match[3]); e != nil {
			file, name = e.File, ": "+match[3]
		}
		if tasks[file] == "" {
			files = append(files, file)
		}
		tasks[file] += "- " + match[1] + name + "\n"
	}
	for _, file := range files {
		fmt.Fprintf(&out, "\n### %s\n\n%s", file, tasks[file])
	}
	return out.String()
}

// text returns the package comment as it is in the source.
func (p *goPackage) text() string {
	for _, file := range p.parsed {
		if file.Doc != nil && file.Name.Name == p.Name {
			return file.Doc.Text()
		}
	}
	return ""
}
