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

// stateInterval is the least time from one writing of the state file to the next. It
// leaves half a second for the writing, so that the file stays within a second of the
// last response. Only the copy of the platform holds up requests, not the writing.
const stateInterval = time.Second / 2

// stateFile keeps the platform in a file: a whole snapshot, which replaces the last one
// whenever something has changed. The file is whole at every moment, and only one
// process keeps it. What was answered after the latest snapshot is lost if the process
// is killed.
type stateFile struct {
	name     string
	loaded   []byte // nil where there was no file
	lock     *filelock.Lock
	platform *dispensarytest.Server
	written  []byte // the content of the file
}

// openState takes the lock of a state file, and reads the file if it exists. A file that
// is not a state file of this version is refused and not changed.
func openState(name string) (s *stateFile, err error) {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // the link stays one
	}
	content, err := os.Open(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--state: %w", err)
	}
	if err == nil {
		defer func() { _ = content.Close() }() // it is only read
	}
	if isFolder(name) {
		return nil, fmt.Errorf("--state %s: is a folder", name)
	}
	if folder := filepath.Dir(name); err != nil && !isFolder(folder) {
		return nil, fmt.Errorf("--state %s: there is no folder %s", name, folder)
	}
	s = &stateFile{name: name}
	s.lock, err = filelock.Acquire(name + ".lock")
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fmt.Errorf("--state %s: another process keeps its platform in it", name)
	case err != nil:
		return nil, fmt.Errorf("--state %s: %w", name, err)
	}
	if content == nil {
		return s, nil
	}
	// The one that was opened may have been replaced before the lock was taken.
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

// writeChanges writes the file whenever something has changed, until ctx ends or the file cannot
// be written.
func (s *stateFile) writeChanges(ctx context.Context) error {
	for {
		changed, _ := s.platform.Changes() // before the snapshot, so that no later change is missed
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

// save writes the platform as it is, unless the file has it.
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

// write puts a new file in the place of the old one. The system's cache is not
// trusted with either.
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
	_ = folder.Sync() // not every system can
	return folder.Close()
}
