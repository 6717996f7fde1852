//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package sqlinbox

import (
	"errors"
	"fmt"
	"os"
)

// lock refuses: without a lock two processes could handle every event twice.
func lock(string) (*os.File, error) {
	return nil, fmt.Errorf("sqlinbox: no file locks on this system: %w", errors.ErrUnsupported)
}
