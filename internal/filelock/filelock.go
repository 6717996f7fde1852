// Package filelock locks a file for one process. A lock ends with the file that is
// returned, and so with the process at the latest, however it ends. The file stays: taking
// it away would let two processes lock two files of one name.
package filelock

import "errors"

// ErrHeld is returned where another process, or another part of this one, holds the lock.
var ErrHeld = errors.New("filelock: another process holds the lock")
