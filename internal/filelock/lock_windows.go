package filelock

import (
	"errors"
	"os"
	"syscall"
)

// sharingViolation means that another process has the file open and does not share it.
const sharingViolation = syscall.Errno(32)

// lock opens the file at path and locks it until it is closed. No other process can open, move
// or remove the file, because it is not shared.
func lock(path string) (*os.File, error) {
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

func idOf(f *os.File) (ID, error) { return IDOf(f.Name()) }
