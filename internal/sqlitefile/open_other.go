//go:build !linux

package sqlitefile

import "github.com/dispensary-go/dispensary/internal/filelock"

// isOpenElsewhere returns false, because this system does not list the open files of a
// process.
func isOpenElsewhere(string, filelock.ID) bool { return false }
