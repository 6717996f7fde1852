package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// stateInterval is how often the state file is looked after: a kill loses what
// happened since. Taking a snapshot and writing what has changed takes milliseconds,
// whatever the size of the world.
const stateInterval = 250 * time.Millisecond

// outgrown is how many bytes of changes a state file has room for before it is
// written anew; a larger snapshot has room for its own size.
const outgrown = 4 << 20

// loadState reads the state file; without one there is no option.
func loadState(name string) ([]dispensarytest.Option, error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		folder := filepath.Dir(name)
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("-state %s: there is no folder %s", name, folder)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("-state: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	snapshot, err := dispensarytest.LoadSnapshot(file)
	if err != nil {
		return nil, fmt.Errorf("-state %s: %w", name, err)
	}
	return []dispensarytest.Option{dispensarytest.WithSnapshot(snapshot)}, nil
}

// keeper keeps the platform in the state file: a whole snapshot at its beginning,
// and after it a line for each time something had changed. When the changes have
// outgrown the snapshot, a new one is written beside the file while changes go on
// being added to it, and takes its place once it has caught up.
type keeper struct {
	name     string
	platform *dispensarytest.Server

	file     *os.File                 // open for adding to
	written  *dispensarytest.Snapshot // what the file holds
	whole    int64                    // bytes of the snapshot at its beginning
	changes  int64                    // bytes after it
	outgrown int64
	beside   chan besideFile // tells of a snapshot that is being written; nil while none is
}

// besideFile is a whole snapshot that stands beside the state file.
type besideFile struct {
	snapshot *dispensarytest.Snapshot
	size     int64
	err      error
}

// begin writes the whole file.
func (k *keeper) begin() error {
	now := k.platform.Snapshot()
	return k.replace(k.writeBeside(now), now)
}

// run keeps the file up to date until ctx ends, and once more then. A file that
// cannot be written ends it.
func (k *keeper) run(ctx context.Context) error {
	ticker := time.NewTicker(stateInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			k.settle()
			return errors.Join(k.save(), k.file.Close())
		case <-ticker.C:
			if err := k.save(); err != nil {
				return errors.Join(err, k.file.Close())
			}
		}
	}
}

// save adds what has changed since the last time.
func (k *keeper) save() error {
	if !k.inPlace() {
		k.settle()
		return k.begin()
	}
	now := k.platform.Snapshot()
	select {
	case beside := <-k.beside:
		k.beside = nil
		return k.replace(beside, now)
	default:
	}
	added, err := addChanges(k.file, now, k.written)
	if err != nil {
		return err
	}
	k.written, k.changes = now, k.changes+added
	if k.changes > max(k.whole, k.outgrown) && k.beside == nil {
		ready := make(chan besideFile, 1)
		k.beside = ready
		go func() { ready <- k.writeBeside(now) }()
	}
	return nil
}

// settle waits for a snapshot that is being written, and drops it.
func (k *keeper) settle() {
	if k.beside != nil {
		<-k.beside
		k.beside = nil
		_ = os.Remove(k.besideName()) // without its place it means nothing
	}
}

// inPlace reports that the open file is still the one that has the name: somebody may
// have removed it, and would not find what is added to it.
func (k *keeper) inPlace() bool {
	opened, err := k.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(k.name)
	return err == nil && os.SameFile(opened, named)
}

func (k *keeper) besideName() string { return k.name + ".tmp" }

// writeBeside writes a whole snapshot beside the state file.
func (k *keeper) writeBeside(snapshot *dispensarytest.Snapshot) besideFile {
	file, err := os.OpenFile(k.besideName(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return besideFile{err: inState(err)}
	}
	to := &counting{to: file}
	err = errors.Join(snapshot.Save(to), file.Sync(), file.Close())
	return besideFile{snapshot: snapshot, size: to.n, err: inState(err)}
}

// replace brings the file beside up to date and puts it in the place of the state
// file, which is whole at every moment.
func (k *keeper) replace(beside besideFile, now *dispensarytest.Snapshot) error {
	if beside.err != nil {
		return beside.err
	}
	file, err := os.OpenFile(k.besideName(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return inState(err)
	}
	added, err := addChanges(file, now, beside.snapshot)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return inState(err)
	}
	if k.file != nil {
		_ = k.file.Close() // it is about to be gone
	}
	if err := os.Rename(k.besideName(), k.name); err != nil {
		return inState(err)
	}
	k.file, err = os.OpenFile(k.name, os.O_APPEND|os.O_WRONLY, 0)
	k.written, k.whole, k.changes = now, beside.size, added
	return inState(err)
}

// addChanges writes what has changed in one go, and reports how many bytes. The
// system has them then, and keeps them when this process is killed; that a line may
// be cut short where the machine itself ends is provided for.
func addChanges(to io.Writer, now, before *dispensarytest.Snapshot) (int64, error) {
	counted := &counting{to: to}
	err := now.SaveChanges(counted, before)
	return counted.n, inState(err)
}

// counting counts what is written.
type counting struct {
	to io.Writer
	n  int64
}

// Write implements [io.Writer].
func (c *counting) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	return n, err
}

func inState(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("-state: %w", err)
}
