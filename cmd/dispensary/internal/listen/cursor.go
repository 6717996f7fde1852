package listen

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/filelock"
	"github.com/dispensary-go/dispensary/webhook"
)

// ErrInUse is returned if another listener has locked the cursor file, or could lock it
// because the lock file was removed.
var ErrInUse = errors.New("listen: another listener uses this cursor file")

// cursorVersion is the version of the file format.
const cursorVersion = 1

// cursorState is the content of the cursor file, by names of sources and groups.
type cursorState struct {
	Version int                                  `json:"version"`
	Sources map[string]map[events.Group]progress `json:"sources"`
}

// progress is the position in the list of a group.
type progress struct {
	// From is a time of the platform's clock. All earlier events are done.
	From time.Time `json:"from"`

	// Checked is the time of the last read of the list, by the clock of this machine.
	Checked time.Time `json:"checked,omitzero"`

	// Done contains the times of the finished events since From.
	Done map[webhook.Key]time.Time `json:"done,omitempty"`
}

// cursor is the locked cursor file of a listener.
type cursor struct {
	path string
	lock *filelock.Lock
}

// openCursor locks and reads the file. A missing file is an empty cursor.
func openCursor(path string) (*cursor, cursorState, error) {
	empty := cursorState{Version: cursorVersion, Sources: map[string]map[events.Group]progress{}}
	lock, err := filelock.Acquire(path + ".lock")
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, empty, ErrInUse
	case err != nil:
		return nil, empty, fmt.Errorf("listen: cursor: %w", err)
	}
	c := &cursor{path, lock}
	var state cursorState
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return c, empty, nil
	case err == nil && (json.Unmarshal(content, &state) != nil || state.Version != cursorVersion || state.Sources == nil):
		err = errors.New("not a cursor file of this program version")
	}
	if err != nil {
		c.close()
		return nil, empty, fmt.Errorf("listen: cursor file %s: %w", filepath.Base(path), err)
	}
	return c, state, nil
}

// check returns [ErrInUse] if the lock file was removed, because then another listener can
// lock the cursor.
func (c *cursor) check() error {
	switch err := c.lock.Check(); {
	case errors.Is(err, filelock.ErrLost):
		return fmt.Errorf("%w: %s.lock was removed", ErrInUse, filepath.Base(c.path))
	case err != nil:
		return fmt.Errorf("listen: cursor: %w", err)
	}
	return nil
}

// save replaces the file, which is complete even if the process is killed. It returns the
// error of check.
func (c *cursor) save(state cursorState) error {
	if err := c.check(); err != nil {
		return err
	}
	content, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("listen: cursor: %w", err)
	}
	next := c.path + ".new"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("listen: cursor: %w", err)
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(next, c.path)
	}
	if err != nil {
		return fmt.Errorf("listen: cursor: %w", err)
	}
	return nil
}

func (c *cursor) close() { _ = c.lock.Close() }
