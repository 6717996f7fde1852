//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package filelock

import (
	"errors"
	"fmt"
	"os"
)

// lock fails, because two processes without a lock could do the same work twice.
func lock(string) (*os.File, error) {
	return nil, fmt.Errorf("no file locks on this system: %w", errors.ErrUnsupported)
}

func idOf(*os.File) (ID, error) { return ID{}, errors.ErrUnsupported }
