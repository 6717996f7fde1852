package sqlinbox

import "syscall"

// freeBytes returns the free space in the file system of a folder. known is false for file
// systems without a size.
func freeBytes(folder string) (bytes int64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil || s.Blocks == 0 {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Frsize), true
}
