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
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
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
