//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package filelock

import (
	"errors"
	"fmt"
	"os"
)

// Lock refuses: without a lock two processes could do everything twice.
func Lock(string) (*os.File, error) {
	return nil, fmt.Errorf("no file locks on this system: %w", errors.ErrUnsupported)
}
