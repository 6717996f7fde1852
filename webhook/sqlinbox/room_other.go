//go:build !linux && !darwin && !freebsd && !windows

package sqlinbox

// freeBytes reports that the free space is unknown on this system.
func freeBytes(string) (bytes int64, known bool) { return 0, false }
