package sqlitefile

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/dispensary-go/dispensary/internal/filelock"
)

// isOpenElsewhere reports whether this process still has a file open that had the path before:
// a removed file of this name, or the log with the ID old under another name. old is zero if
// there is no such log. Without /proc it returns false.
func isOpenElsewhere(path string, old filelock.ID) bool {
	const folder = "/proc/self/fd"
	descriptors, err := os.ReadDir(folder)
	if err != nil {
		return false
	}
	for _, d := range descriptors {
		target, err := os.Readlink(folder + "/" + d.Name())
		if err != nil { // it was closed
			continue
		}
		if target == path+" (deleted)" {
			return true
		}
		if old == (filelock.ID{}) || target == path {
			continue
		}
		descriptor, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		if id, err := filelock.IDOfOpen(descriptor); err == nil && id == old && isRenamedLog(descriptor, target) {
			return true
		}
	}
	return false
}

// isRenamedLog reports whether an open file is a renamed log. The alternative is a later file
// with the inode of a removed log, such as the log of another database.
func isRenamedLog(descriptor int, target string) bool {
	if database, isLog := strings.CutSuffix(target, "-wal"); isLog {
		if _, err := os.Stat(database); err == nil {
			return false
		}
	}
	const magic = 0x377f0682 // the last bit is the byte order of the checksums
	var header [4]byte
	n, err := syscall.Pread(descriptor, header[:], 0)
	return err == nil && n == len(header) && binary.BigEndian.Uint32(header[:])&^1 == magic
}
