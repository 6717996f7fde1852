// Release commits and tags one version of all modules of the checkout. It never pushes.
//
//	go run ./release v1.2.3
//
// The first commit, on the branch, requires each module of the repository at the version. It keeps the replace
// lines, because importers ignore them. `go install` rejects them, so a command is tagged on a second commit
// without them, outside of the branch.
//
// It changes the checkout only after all checks have passed.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

func main() {
	proxy := flag.String("proxy", "", "write the modules to `FOLDER`, for GOPROXY=file://FOLDER")
	flag.Parse()
	if flag.NArg() != 1 {
		_, _ = fmt.Fprintln(os.Stderr, "usage: release [-proxy FOLDER] vX.Y.Z")
		os.Exit(2)
	}
	if err := run(".", flag.Arg(0), *proxy, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run releases the checkout of folder. It keeps the module proxy unless proxy is empty.
func run(folder, version, proxy string, out io.Writer) (err error) {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("%s is not a version such as v1.2.3", version)
	}
	checkout, err := git(folder, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	changes, err := git(checkout, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the checkout has uncommitted changes:\n%s", changes)
	}
	temporary, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	r := release{version: version, tree: filepath.Join(temporary, "tree"), proxy: proxy}
	if proxy == "" {
		r.proxy = filepath.Join(temporary, "proxy")
	}
	if _, err := git(checkout, "worktree", "add", "--quiet", "--detach", r.tree); err != nil {
		return err
	}
	defer func() {
		_, failure := git(checkout, "worktree", "remove", "--force", r.tree)
		err = errors.Join(err, failure)
	}()
	if err := r.commitAll(); err != nil {
		return err
	}
	if err := r.publish(checkout); err != nil {
		return err
	}
	_, err = io.WriteString(out, r.instructions())
	return err
}

// instructions returns the commands to publish the release, in order.
func (r *release) instructions() string {
	var downloads, libraries, commands strings.Builder
	for _, m := range r.libraries {
		fmt.Fprintf(&libraries, " %s", m.tag(r.version))
		fmt.Fprintf(&downloads, " %s@%s", m.path, r.version)
	}
	for _, m := range r.commands {
		fmt.Fprintf(&commands, " %s", m.tag(r.version))
	}
	return fmt.Sprintf(`Push the branch and the libraries:

    git push --atomic origin HEAD%s

Wait until the module proxy has them:

    (cd / && until GOPROXY=https://proxy.golang.org go mod download%s; do sleep 30; done)

Push the command:

    git push origin%s
`, &libraries, &downloads, &commands)
}

// git returns the output of a git command without the last line feed.
func git(folder string, args ...string) (string, error) {
	command := exec.Command("git", args...)
	command.Dir = folder
	out, err := command.Output()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, failed.Stderr)
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

// release is one version of the modules in a worktree.
type release struct {
	version string
	tree    string   // top folder of the worktree
	proxy   string   // folder of the module proxy
	modules []*gomod // all of the repository

	libraries, commands []*gomod // to release
}

// gomod is a module of the repository.
type gomod struct {
	path   string
	folder string // relative, with slashes: "." for the root
	commit string // with the tag of a released module
}

// isReleased reports whether programs outside of the repository can use the module.
func (m *gomod) isReleased() bool {
	return m.folder != "examples" && !strings.HasPrefix(m.folder, "internal/")
}

func (m *gomod) isCommand() bool { return strings.HasPrefix(m.folder, "cmd/") }

func (m *gomod) tag(version string) string { return path.Join(m.folder, version) }

// sibling returns the module of the repository at path, or nil.
func (r *release) sibling(path string) *gomod {
	for _, m := range r.modules {
		if m.path == path {
			return m
		}
	}
	return nil
}

// commitAll creates the commits in the worktree and writes the modules to the proxy.
func (r *release) commitAll() error {
	if err := r.readModules(); err != nil {
		return err
	}
	if err := r.commitLibraries(); err != nil {
		return err
	}
	for _, m := range r.commands {
		if _, err := git(r.tree, "checkout", "--quiet", "--detach", r.libraries[0].commit); err != nil {
			return err
		}
		if err := r.commitCommand(m); err != nil {
			return err
		}
	}
	return nil
}

// publish moves the branch of the checkout to the commit of the libraries, and creates the tags.
func (r *release) publish(checkout string) error {
	if _, err := git(checkout, "merge", "--quiet", "--ff-only", r.libraries[0].commit); err != nil {
		return err
	}
	for _, m := range slices.Concat(r.libraries, r.commands) {
		if _, err := git(checkout, "tag", m.tag(r.version), m.commit); err != nil {
			return err
		}
	}
	return nil
}

// readModules finds the modules. It fails if a tag of the version exists.
func (r *release) readModules() error {
	files, err := git(r.tree, "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return err
	}
	for name := range strings.Lines(files) {
		m := &gomod{folder: path.Dir(strings.TrimSpace(name))}
		file, err := r.read(m)
		if err != nil {
			return err
		}
		m.path = file.Module.Mod.Path
		r.modules = append(r.modules, m)
		switch {
		case !m.isReleased():
		case m.isCommand():
			r.commands = append(r.commands, m)
		default:
			r.libraries = append(r.libraries, m)
		}
		tags, err := git(r.tree, "tag", "--list", m.tag(r.version))
		if err != nil {
			return err
		}
		if tags != "" {
			return fmt.Errorf("the tag %s exists", tags)
		}
	}
	return nil
}

// commitLibraries creates the commit of all modules except the commands.
func (r *release) commitLibraries() error {
	for _, m := range r.modules {
		if err := r.requireVersion(m); err != nil {
			return err
		}
	}
	for _, m := range r.modules {
		tidy := exec.Command("go", "mod", "tidy", "-diff")
		tidy.Dir, tidy.Env = filepath.Join(r.tree, m.folder), append(os.Environ(), "GOWORK=off")
		if said, err := tidy.CombinedOutput(); err != nil {
			return fmt.Errorf("go mod tidy -diff of %s: %w\n%s", m.path, err, said)
		}
	}
	return r.commit("require modules at "+r.version, r.libraries...)
}

// requireVersion requires the siblings of a module at the version. It also edits unreleased modules, because
// their replace lines name modules with this requirement.
func (r *release) requireVersion(m *gomod) error {
	file, err := r.read(m)
	if err != nil {
		return err
	}
	for _, required := range file.Require {
		if r.sibling(required.Mod.Path) != nil {
			err = errors.Join(err, file.AddRequire(required.Mod.Path, r.version))
		}
	}
	return errors.Join(err, r.write(m, file))
}

// commitCommand creates the commit of a command, without replace lines.
func (r *release) commitCommand(m *gomod) error {
	file, err := r.read(m)
	if err != nil {
		return err
	}
	for _, replace := range file.Replace {
		if r.sibling(replace.Old.Path) != nil {
			err = errors.Join(err, file.DropReplace(replace.Old.Path, replace.Old.Version))
		}
	}
	if err := errors.Join(err, r.write(m, file), r.addSums(m, file)); err != nil {
		return err
	}
	return r.commit("drop replace lines of "+m.folder, m)
}

// commit commits the worktree if it has changes. It checks the committed modules and adds them to the proxy.
func (r *release) commit(subject string, modules ...*gomod) error {
	changes, err := git(r.tree, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		if _, err := git(r.tree, "add", "--all"); err != nil {
			return err
		}
		if _, err := git(r.tree, "commit", "--quiet", "--message", "chore(release): "+subject); err != nil {
			return err
		}
	}
	head, err := git(r.tree, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	for _, m := range modules {
		m.commit = head
		if err := r.check(m); err != nil {
			return err
		}
		if err := r.addToProxy(m); err != nil {
			return err
		}
	}
	return nil
}

// check reports a line of go.mod that prevents importing or installing the module.
func (r *release) check(m *gomod) error {
	file, err := r.read(m)
	if err != nil {
		return err
	}
	for _, required := range file.Require {
		sibling := r.sibling(required.Mod.Path)
		switch {
		case required.Mod.Version == "v0.0.0", sibling != nil && required.Mod.Version != r.version:
			return fmt.Errorf("%s requires %s", m.path, required.Mod)
		case sibling != nil && !sibling.isReleased():
			return fmt.Errorf("%s requires %s, which is not released", m.path, sibling.path)
		}
	}
	for _, replace := range file.Replace {
		if m.isCommand() || r.sibling(replace.Old.Path) == nil {
			return fmt.Errorf("%s replaces %s", m.path, replace.Old.Path)
		}
	}
	return nil
}

func (r *release) read(m *gomod) (*modfile.File, error) {
	name := filepath.Join(r.tree, m.folder, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, data, nil)
}

func (r *release) write(m *gomod, file *modfile.File) error {
	file.Cleanup()
	return os.WriteFile(filepath.Join(r.tree, m.folder, "go.mod"), modfile.Format(file.Syntax), 0o644)
}

// addToProxy writes the files of a module for a module proxy, see
// https://go.dev/ref/mod#goproxy-protocol.
func (r *release) addToProxy(m *gomod) error {
	base, err := r.proxied(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return err
	}
	gomod, err := os.ReadFile(filepath.Join(r.tree, m.folder, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]string{"Version": r.version})
	if err != nil {
		return err
	}
	list := filepath.Join(filepath.Dir(base), "list")
	for name, data := range map[string][]byte{base + ".mod": gomod, base + ".info": info, list: []byte(r.version + "\n")} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	archive, err := os.Create(base + ".zip")
	if err != nil {
		return err
	}
	// Package zip needs a .git folder. A worktree has a .git file.
	repository, err := git(r.tree, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err == nil {
		folder := strings.TrimPrefix(m.folder, ".")
		err = zip.CreateFromVCS(archive, module.Version{Path: m.path, Version: r.version}, filepath.Dir(repository), m.commit, folder)
	}
	return errors.Join(err, archive.Close())
}

// addSums adds the required modules of the repository to go.sum, because the proxy of Go does not have them
// yet.
func (r *release) addSums(m *gomod, file *modfile.File) error {
	name := filepath.Join(r.tree, m.folder, "go.sum")
	sums, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	lines := slices.Collect(strings.Lines(string(sums)))
	for _, required := range file.Require {
		sibling := r.sibling(required.Mod.Path)
		if sibling == nil {
			continue
		}
		base, err := r.proxied(sibling)
		if err != nil {
			return err
		}
		archive, err := dirhash.HashZip(base+".zip", dirhash.Hash1)
		if err != nil {
			return err
		}
		gomod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return os.Open(base + ".mod") })
		if err != nil {
			return err
		}
		lines = append(lines, sibling.path+" "+r.version+" "+archive+"\n", sibling.path+" "+r.version+"/go.mod "+gomod+"\n")
	}
	// A stable sort keeps the lines of one module in version order.
	slices.SortStableFunc(lines, func(a, b string) int {
		first, _, _ := strings.Cut(a, " ")
		second, _, _ := strings.Cut(b, " ")
		return strings.Compare(first, second)
	})
	return os.WriteFile(name, []byte(strings.Join(lines, "")), 0o644)
}

// proxied returns the path of a module's files in the proxy, without their endings.
func (r *release) proxied(m *gomod) (string, error) {
	escaped, err := module.EscapePath(m.path)
	return filepath.Join(r.proxy, escaped, "@v", r.version), err
}
