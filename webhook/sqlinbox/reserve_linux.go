package sqlinbox

import (
	"os"
	"syscall"
)

// fallocate has a file take up room that is not written to.
func fallocate(f *os.File, from, by int64) error {
	return syscall.Fallocate(int(f.Fd()), 0, from, by)
}
