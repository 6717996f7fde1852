//go:build !linux

package sqlitefile

import "github.com/dispensary-go/dispensary/internal/fileid"

// isOpenElsewhere reports false: this system does not list the files of a process.
func isOpenElsewhere(string, fileid.ID) bool { return false }
