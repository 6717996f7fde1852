//go:build !linux

package sqlitefile

// isMountPoint reports false: only Linux mounts single files.
func isMountPoint(string) bool { return false }
