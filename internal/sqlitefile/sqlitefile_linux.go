package sqlitefile

import (
	"encoding/binary"
	"errors"
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

// Owner is a lock on the database itself. Unlike a lock file, it cannot be removed.
type Owner struct {
	descriptor int
	closes     func() bool
}

const (
	ofdSetLock = 37      // F_OFD_SETLK, on every architecture
	ownerByte  = 1 << 40 // far beyond the bytes that SQLite locks
)

// Own locks the database at path for one owner until [Owner.Release]. It fails with
// [filelock.ErrHeld] while another owner, in this process or another one, has the lock.
// Outside of Linux, and on a file system without such locks, it locks nothing.
//
// The lock belongs to an open file description, so closing another descriptor of the file does
// not release it. closes reports whether Release may close the descriptor of Own. Closing it
// drops the POSIX locks of this process on the file, so SQLite must use open file description
// locks. Otherwise the descriptor stays open, without the lock, until the process ends.
func Own(path string, closes func() bool) (*Owner, error) {
	descriptor, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	o := &Owner{descriptor, closes}
	err = o.set(syscall.F_WRLCK)
	switch {
	case err == nil, errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOLCK):
		return o, nil
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		err = filelock.ErrHeld
	}
	return nil, errors.Join(err, o.Release())
}

// Release releases the lock.
func (o *Owner) Release() error {
	if o.closes() {
		return os.NewSyscallError("close", syscall.Close(o.descriptor))
	}
	return o.set(syscall.F_UNLCK)
}

func (o *Owner) set(kind int16) error {
	lock := syscall.Flock_t{Type: kind, Start: ownerByte, Len: 1}
	return os.NewSyscallError("fcntl", syscall.FcntlFlock(uintptr(o.descriptor), ofdSetLock, &lock))
}

// isMountPoint reports whether a resolved path is a mount point. Without /proc it returns
// false.
func isMountPoint(path string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(mounts)) {
		const mountPoint = 4 // the field, see proc_pid_mountinfo(5)
		if fields := strings.Fields(line); len(fields) > mountPoint && unescape.Replace(fields[mountPoint]) == path {
			return true
		}
	}
	return false
}

// unescape decodes the escaped characters of mountinfo, which would otherwise end a field or a
// line.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
