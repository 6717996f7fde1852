package platform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/filelock"
)

// stateInterval is the shortest time between two writes of the state file. It leaves half a
// second for a write, so the file is at most one second behind the last response. Requests
// wait only while the platform is copied, not while the file is written.
const stateInterval = time.Second / 2

// stateFile stores the platform in a file. Each change replaces the file by a new snapshot, so
// it is complete at every moment. Only one process can use it. If the process is killed,
// changes since the latest snapshot are lost.
type stateFile struct {
	name     string
	loaded   []byte // nil if the file did not exist
	lock     *filelock.Lock
	platform *dispensarytest.Server
	written  []byte // the latest content of the file, nil before the first write
}

// openState locks a state file and reads it if it exists. A file of another kind or version is
// rejected later, by the start of the platform, and not changed.
func openState(name string) (s *stateFile, err error) {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // so that write replaces the target and not the link
	}
	content, err := os.Open(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--state: %w", err)
	}
	if err == nil {
		defer func() { _ = content.Close() }() // only read
	}
	if isFolder(name) {
		return nil, fmt.Errorf("--state %s: is a directory, not a file", name)
	}
	if folder := filepath.Dir(name); err != nil && !isFolder(folder) {
		return nil, fmt.Errorf("--state %s: directory %s does not exist", name, folder)
	}
	s = &stateFile{name: name}
	s.lock, err = filelock.Acquire(name + ".lock")
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fmt.Errorf("--state %s: in use by another process", name)
	case err != nil:
		return nil, fmt.Errorf("--state %s: %w", name, err)
	}
	if content == nil {
		return s, nil
	}
	// Another process may have replaced the opened file before the lock was acquired.
	now, err := os.Open(name)
	if err == nil {
		defer func() { _ = now.Close() }()
		s.loaded, err = io.ReadAll(now)
	}
	if err != nil {
		_ = s.lock.Close()
		return nil, fmt.Errorf("--state %s: %w", name, err)
	}
	return s, nil
}

func isFolder(name string) bool {
	about, err := os.Stat(name)
	return err == nil && about.IsDir()
}

// writeChanges writes the file after each change. It returns nil once ctx is canceled, or the
// error of a failed write.
func (s *stateFile) writeChanges(ctx context.Context) error {
	for {
		changed, _ := s.platform.Changes() // before the snapshot, so that it misses no later change
		next := time.After(stateInterval)
		if err := s.save(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}

// save writes the current platform, unless the file already contains it.
func (s *stateFile) save() error {
	now, err := s.platform.Snapshot()
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	if bytes.Equal(now, s.written) {
		return nil
	}
	if err := s.write(now); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	s.written = now
	return nil
}

// write replaces the file. It syncs the file and its directory, so a crash of the machine
// leaves the old or the new content.
func (s *stateFile) write(content []byte) error {
	file, err := os.OpenFile(s.name+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(s.name+".tmp", s.name); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(s.name))
	if err != nil {
		return err
	}
	_ = folder.Sync() // some systems cannot sync a directory
	return folder.Close()
}
