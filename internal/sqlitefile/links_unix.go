//go:build unix

package sqlitefile

import (
	"os"
	"syscall"
)

// linksOf returns the number of hard links of a file.
func linksOf(path string) (uint64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if unix, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(unix.Nlink), nil //nolint:unconvert // the type differs between systems
	}
	return 1, nil
}
