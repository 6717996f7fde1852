//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// IDOf returns the ID of the file at path and follows symbolic links. The error is an
// [*os.PathError].
func IDOf(path string) (ID, error) {
	var info syscall.Stat_t
	for {
		switch err := syscall.Stat(path, &info); {
		case err == nil:
			return statID(&info), nil
		case !errors.Is(err, syscall.EINTR):
			return ID{}, &os.PathError{Op: "stat", Path: path, Err: err}
		}
	}
}

// IDOfOpen returns the ID of an open file.
func IDOfOpen(descriptor int) (ID, error) {
	var info syscall.Stat_t
	if err := syscall.Fstat(descriptor, &info); err != nil {
		return ID{}, os.NewSyscallError("fstat", err)
	}
	return statID(&info), nil
}

func statID(info *syscall.Stat_t) ID {
	return ID{uint64(info.Dev), uint64(info.Ino)} //nolint:unconvert // the types differ between systems
}
