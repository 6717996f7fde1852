package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

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
