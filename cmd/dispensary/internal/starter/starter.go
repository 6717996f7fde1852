// Package starter writes a small program that integrates the dispensary, with its own tests.
// Folder program contains its files, which are also built and tested in this repository.
package starter

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

//go:embed program/.env.example program/.github/workflows/test.yml program/.gitignore program/*.go
var embedded embed.FS

// Config describes a program.
type Config struct {
	// Module is the module path of the program, such as example.com/ehr.
	Module string

	// Version is the version of the library, such as 0.1.0. It is ignored if Clone is set.
	Version string

	// Clone is the folder of a clone of the library to use, or "".
	Clone string
}

// ErrNotReleased is the error of a development version, which no module proxy provides.
var ErrNotReleased = errors.New("is not released")

// Files returns the contents of the program's files by slash-separated path. It fails with
// [ErrNotReleased] if Version is a development version, and if Clone is not a clone of the
// library.
func (c Config) Files() (map[string][]byte, error) {
	gomod, err := c.gomod()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"go.mod": gomod}
	err = fs.WalkDir(embedded, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[strings.TrimPrefix(path, "program/")], err = embedded.ReadFile(path)
		return err
	})
	return files, err
}

const (
	library   = "github.com/dispensary-go/dispensary"
	goVersion = "1.26.0" // of the library
)

// drivers are the folders of the modules with the drivers of databases. The program imports the
// first one.
var drivers = []string{"integration/sqlite", "integration/postgres", "integration/mysql"}

// gomod returns the go.mod file without indirect requirements. "go mod tidy" adds them.
func (c Config) gomod() ([]byte, error) {
	version, replaced := "v"+c.Version, map[string]string{}
	if c.Clone != "" {
		var err error
		version = "v0.0.0"
		if replaced, err = modules(c.Clone); err != nil {
			return nil, err
		}
	} else if !semver.IsValid(version) || semver.Build(version) != "" || module.IsPseudoVersion(version) {
		return nil, fmt.Errorf("(%s) %w", c.Version, ErrNotReleased)
	}
	var file modfile.File
	err := errors.Join(file.AddModuleStmt(c.Module), file.AddGoStmt(goVersion),
		file.AddRequire(library, version), file.AddRequire(library+"/"+drivers[0], version))
	for _, path := range slices.Sorted(maps.Keys(replaced)) {
		err = errors.Join(err, file.AddReplace(path, "", replaced[path], ""))
	}
	if err != nil {
		return nil, err
	}
	file.Cleanup()
	return file.Format()
}

// modules returns the folders of the drivers and of the modules that they need in a clone, by
// module path.
func modules(clone string) (map[string]string, error) {
	clone, err := filepath.Abs(clone)
	if err != nil {
		return nil, err
	}
	folders := map[string]string{}
	for _, driver := range drivers {
		folder := filepath.Join(clone, filepath.FromSlash(driver))
		name := filepath.Join(folder, "go.mod")
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := modfile.Parse(name, content, nil)
		if err != nil {
			return nil, err
		}
		if file.Module == nil || file.Module.Mod.Path != library+"/"+driver {
			return nil, fmt.Errorf("%s is not a clone of %s", clone, library)
		}
		folders[file.Module.Mod.Path] = folder
		for _, replace := range file.Replace {
			folders[replace.Old.Path] = filepath.Join(folder, filepath.FromSlash(replace.New.Path))
		}
	}
	return folders, nil
}

// CheckModule rejects an invalid module path.
func CheckModule(path string) error {
	if err := module.CheckImportPath(path); err != nil {
		return err
	}
	if _, _, ok := module.SplitPathVersion(path); !ok {
		return fmt.Errorf("malformed import path %q: invalid major version", path)
	}
	if first, _, _ := strings.Cut(path, "/"); slices.Contains(reserved, first) {
		return fmt.Errorf("import path %q belongs to Go", path)
	}
	return nil
}

// reserved are the first elements of Go's own import paths.
var reserved = strings.Fields(`archive arena bufio builtin bytes cmd cmp compress container context
	crypto database debug embed encoding errors expvar flag fmt go hash html image index internal io
	iter log main maps math mime net os path plugin reflect regexp runtime simd slices sort std strconv
	strings structs sync syscall testing text time unicode unique unsafe uuid vendor weak`)

// ExistError is the error of files that [Write] would overwrite. Paths are the paths of the files.
type ExistError struct{ Paths []string }

// Error lists the files.
func (e *ExistError) Error() string {
	if len(e.Paths) == 1 {
		return e.Paths[0] + " exists"
	}
	return strings.Join(e.Paths, ", ") + " exist"
}

// Write writes files by slash-separated path into a folder. It creates the folder if it does not
// exist. If it fails, it removes the files and folders it has created.
//
// It fails with an [*ExistError] if any of the files exist, and overwrites none.
func Write(folder string, files map[string][]byte) (err error) {
	names := map[string]string{} // by path
	for path := range files {
		names[path] = filepath.Join(folder, filepath.FromSlash(path))
	}
	if err := checkAbsent(slices.Sorted(maps.Values(names))); err != nil {
		return err
	}
	var made []string
	defer func() {
		if err != nil {
			for _, name := range slices.Backward(made) {
				err = errors.Join(err, os.Remove(name))
			}
		}
	}()
	for _, path := range slices.Sorted(maps.Keys(names)) {
		if err := makeFolder(filepath.Dir(names[path]), &made); err != nil {
			return err
		}
		if err := create(names[path], files[path], &made); err != nil {
			return err
		}
	}
	return nil
}

// checkAbsent fails with an [*ExistError] if any of the files exist.
func checkAbsent(names []string) error {
	var exist []string
	for _, name := range names {
		switch _, err := os.Lstat(name); {
		case err == nil:
			exist = append(exist, name)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	if len(exist) > 0 {
		return &ExistError{exist}
	}
	return nil
}

// makeFolder creates a folder and its parents if they do not exist, and adds each to made.
func makeFolder(folder string, made *[]string) error {
	about, err := os.Stat(folder)
	switch {
	case err == nil && about.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: folder, Err: syscall.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(folder)
	if parent == folder { // a drive of Windows
		return err
	}
	if err := makeFolder(parent, made); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o777); err != nil {
		return err
	}
	*made = append(*made, folder)
	return nil
}

// create writes a new file, and adds it to made.
func create(name string, content []byte, made *[]string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	*made = append(*made, name)
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
