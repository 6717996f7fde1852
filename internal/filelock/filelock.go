// Package filelock locks a file for one process, and identifies files.
//
// The operating system releases the lock when the process ends, even after a crash. The locked
// file stays, because removing it would let two processes lock two files with the same name.
// If another program removes it, [Lock.Check] fails.
package filelock

import (
	"errors"
	"os"
)

var (
	// ErrHeld is returned by [Acquire] while another process, or another part of this one,
	// holds the lock.
	ErrHeld = errors.New("filelock: another process holds the lock")

	// ErrLost is returned by [Lock.Check] if the locked file was moved, removed or replaced,
	// so another process can lock the path.
	ErrLost = errors.New("filelock: the lock file was moved, removed or replaced")
)

// ID identifies a file for as long as it exists or is open. A program that has a file open detects
// with it that the path names another file by now. The zero ID belongs to no file.
type ID struct{ device, inode uint64 }

// Lock is a locked file. It is safe for concurrent use.
type Lock struct {
	path string
	file *os.File
	id   ID
}

// Acquire locks the file at path until [Lock.Close]. It creates the file if it does not exist.
// Acquire fails with [ErrHeld] or with an error of the file system.
func Acquire(path string) (*Lock, error) {
	for {
		file, err := lock(path)
		if err != nil {
			return nil, err
		}
		l := &Lock{path: path, file: file}
		if l.id, err = idOf(file); err == nil {
			err = l.Check()
		}
		if err == nil {
			return l, nil
		}
		_ = file.Close()
		if !errors.Is(err, ErrLost) { // ErrLost: the file was removed between open and lock
			return nil, err
		}
	}
}

// Check fails with [ErrLost] if the path no longer names the locked file. It makes one stat
// call.
func (l *Lock) Check() error {
	switch id, err := IDOf(l.path); {
	case errors.Is(err, os.ErrNotExist), err == nil && id != l.id:
		return ErrLost
	default:
		return err
	}
}

// Close releases the lock.
func (l *Lock) Close() error { return l.file.Close() }
