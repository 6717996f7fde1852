//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlinbox

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock takes the lock of a database, which ends with the file that is returned,
// and so with the process at the latest. The file stays: taking it away would
// let two processes lock two files of one name.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sqlinbox: lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrInUse
	}
	return nil, fmt.Errorf("sqlinbox: lock: %w", err)
}
