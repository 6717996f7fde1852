package filelock

import (
	"errors"
	"os"
	"syscall"
)

// sharingViolation: another process has the file open and does not share it.
const sharingViolation = syscall.Errno(32)

// Lock locks the file at path, which it makes where there is none, until the file that it
// returns is closed: it is opened for oneself alone. While another one holds the lock the
// error is [ErrHeld].
func Lock(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	switch {
	case errors.Is(err, sharingViolation):
		return nil, ErrHeld
	case err != nil:
		return nil, err
	}
	return os.NewFile(uintptr(handle), path), nil
}
