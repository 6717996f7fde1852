//go:build unix

package platform

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks a file until it is closed, and reports whether no other process had locked it.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
