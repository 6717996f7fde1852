package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// stateInterval is how often the state file is looked after. A kill loses what
// happened since, and while the file is being written.
const stateInterval = 400 * time.Millisecond

// loadState reads the state file; without one there is no option.
func loadState(name string) ([]dispensarytest.Option, error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
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

// keeper writes the platform to the state file whenever it may have changed.
type keeper struct {
	name     string
	platform *dispensarytest.Server
	calls    atomic.Uint64 // of console and control API

	written [sha256.Size]byte // of the file
	seen    uint64            // the activity that the file covers
}

// counts counts the requests to a handler, whose changes the platform does not
// count itself.
func (k *keeper) counts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.calls.Add(1)
		defer k.calls.Add(1) // it may have been seen before it was done
		next.ServeHTTP(w, r)
	})
}

// run keeps the file up to date until ctx ends, and once more then. A file that
// cannot be written ends it.
func (k *keeper) run(ctx context.Context) error {
	ticker := time.NewTicker(stateInterval)
	defer ticker.Stop()
	for {
		if err := k.save(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return k.save()
		case <-ticker.C:
		}
	}
}

// save writes the file if there is anything new, in a way that leaves the old one
// whole until the new one is.
func (k *keeper) save() error {
	activity := k.calls.Load() + k.platform.Activity() + 1
	if activity == k.seen {
		return nil
	}
	var state bytes.Buffer
	if err := k.platform.Save(&state); err != nil {
		return fmt.Errorf("-state: %w", err)
	}
	k.seen = activity
	sum := sha256.Sum256(state.Bytes())
	if sum == k.written {
		return nil
	}
	k.written = sum
	return replace(k.name, state.Bytes())
}

// replace puts a whole file in the place of another.
func replace(name string, content []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp")
	if err != nil {
		return fmt.Errorf("-state: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name()) // what matters is why
			err = fmt.Errorf("-state: %w", err)
		}
	}()
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
