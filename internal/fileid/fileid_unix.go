//go:build unix

package fileid

import (
	"errors"
	"os"
	"syscall"
)

// Of returns the ID of the file at path and follows symbolic links. The error is an
// [*os.PathError].
func Of(path string) (ID, error) {
	var info syscall.Stat_t
	for {
		switch err := syscall.Stat(path, &info); {
		case err == nil:
			return idOf(&info), nil
		case !errors.Is(err, syscall.EINTR):
			return ID{}, &os.PathError{Op: "stat", Path: path, Err: err}
		}
	}
}

// OfOpen returns the ID of an open file.
func OfOpen(descriptor int) (ID, error) {
	var info syscall.Stat_t
	if err := syscall.Fstat(descriptor, &info); err != nil {
		return ID{}, os.NewSyscallError("fstat", err)
	}
	return idOf(&info), nil
}

func idOf(info *syscall.Stat_t) ID {
	return ID{uint64(info.Dev), uint64(info.Ino)} //nolint:unconvert // the types differ between systems
}
