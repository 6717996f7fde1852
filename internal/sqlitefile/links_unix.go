//go:build unix

package sqlitefile

import (
	"os"
	"syscall"
)

// linksOf returns the number of hard links of a file.
func linksOf(info os.FileInfo) uint64 {
	if unix, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(unix.Nlink) //nolint:unconvert // the type differs between systems
	}
	return 1
}
