//go:build !linux

package sqlitefile

// isMountPoint returns false, because only Linux mounts single files.
func isMountPoint(string) bool { return false }
