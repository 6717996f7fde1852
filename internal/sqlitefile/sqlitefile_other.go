//go:build !linux

package sqlitefile

import (
	"github.com/dispensary-go/dispensary/internal/filelock"
)

// isOpenElsewhere returns false, because this system does not list the open files of a
// process.
func isOpenElsewhere(string, filelock.ID) bool { return false }

// Owner is a lock on the database itself.
type Owner struct{}

// Own locks nothing on this system.
func Own(string, func() bool) (*Owner, error) { return &Owner{}, nil }

// Release does nothing.
func (*Owner) Release() error { return nil }

// isMountPoint returns false, because only Linux mounts single files.
func isMountPoint(string) bool { return false }
