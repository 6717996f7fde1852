package sqlinbox

import "golang.org/x/sys/windows"

// freeBytes returns the free space of the volume of a folder for this user.
func freeBytes(folder string) (bytes int64, known bool) {
	path, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return 0, false
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, nil, nil); err != nil {
		return 0, false
	}
	return int64(free), true
}
