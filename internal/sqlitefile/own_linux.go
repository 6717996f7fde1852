package sqlitefile

import (
	"errors"
	"os"
	"syscall"

	"github.com/dispensary-go/dispensary/internal/filelock"
)

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
