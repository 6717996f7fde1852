//go:build !unix

package sqlitefile

import "os"

// linksOf returns 1 for every file, because os.Stat does not count links on this system.
func linksOf(os.FileInfo) uint64 { return 1 }
