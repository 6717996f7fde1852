package sqlinbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// sharingViolation: another process has the file open and does not share it.
const sharingViolation = syscall.Errno(32)

// lock takes the lock of a database, which ends with the file that is returned,
// and so with the process at the latest: a file that is opened for oneself alone.
func lock(path string) (*os.File, error) {
	name, err := syscall.UTF16PtrFromString(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("sqlinbox: lock: %w", err)
	}
	handle, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	switch {
	case errors.Is(err, sharingViolation):
		return nil, ErrInUse
	case err != nil:
		return nil, fmt.Errorf("sqlinbox: lock: %w", err)
	}
	return os.NewFile(uintptr(handle), path+".lock"), nil
}
