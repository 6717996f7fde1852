package platform

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// lockFile is a locked file beside a state file that a process keeps. It contains the
// process's id. The file of a process that was killed is no longer locked.
type lockFile struct{ file *os.File }

// takeLock locks a file, or says which process has locked it.
func takeLock(name string) (*lockFile, error) {
	for {
		file, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		locked, err := tryLock(file)
		if err != nil || !locked {
			holder, _ := os.ReadFile(name + ".lock") // what it says is for people
			_ = file.Close()
			if err != nil {
				return nil, fmt.Errorf("it cannot be locked: %w", err)
			}
			return nil, fmt.Errorf("process %s keeps its platform in it", strings.TrimSpace(string(holder)))
		}
		opened, err := file.Stat()
		named, gone := os.Stat(name + ".lock")
		if err == nil && gone == nil && os.SameFile(opened, named) {
			_ = file.Truncate(0)
			_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
			return &lockFile{file}, err
		}
		_ = file.Close() // its holder has removed it
	}
}

func (l *lockFile) release() {
	_ = os.Remove(l.file.Name()) // while it is locked
	_ = l.file.Close()
}
