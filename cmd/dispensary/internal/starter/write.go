package starter

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

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
