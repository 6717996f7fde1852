package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

const (
	// stateLag is how far the state file may be behind what was answered. Answers
	// to requests that may have changed something wait where it would be more.
	stateLag = time.Second

	// stateInterval is the least time from one writing of the file to the next. It
	// leaves half a second for the writing, before an answer waits.
	stateInterval = stateLag / 2
)

// stateFile keeps the platform in a file: a whole snapshot, which takes the place of
// the last one whenever something has changed. The file is whole at every moment,
// and one process alone keeps it.
type stateFile struct {
	name     string
	loaded   *dispensarytest.Snapshot // nil where there was no file
	lock     *lockFile
	platform *dispensarytest.Server
	written  *dispensarytest.Snapshot // what the file holds
	full     chan struct{}            // has a word in it when an answer waits

	mu      sync.Mutex
	unsaved time.Time     // of the first answer that the file may not know of; zero without one
	since   time.Time     // of the first answer since the latest snapshot was taken
	saved   chan struct{} // closed and replaced with every change of these
	ended   bool          // nothing is written any more
}

// openState takes the lock of a state file, and reads the file if there is one. What
// is no state file of this version is left as it is.
func openState(name string) (s *stateFile, err error) {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // the link stays one
	}
	content, err := os.Open(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("-state: %w", err)
	}
	if err == nil {
		defer func() { _ = content.Close() }() // it is only read
	}
	if folder := filepath.Dir(name); err != nil && !isFolder(folder) {
		return nil, fmt.Errorf("-state %s: there is no folder %s", name, folder)
	}
	s = &stateFile{name: name, full: make(chan struct{}, 1), saved: make(chan struct{})}
	if s.lock, err = takeLock(name); err != nil {
		return nil, fmt.Errorf("-state %s: %w", name, err)
	}
	if content == nil {
		return s, nil
	}
	// The one that was opened may have been replaced before the lock was taken.
	now, err := os.Open(name)
	if err == nil {
		defer func() { _ = now.Close() }()
		s.loaded, err = dispensarytest.LoadSnapshot(bufio.NewReader(now))
	}
	if err != nil {
		s.lock.release()
		return nil, fmt.Errorf("-state %s: %s; the file is left as it is", name, stateProblem(err))
	}
	return s, nil
}

func isFolder(name string) bool {
	about, err := os.Stat(name)
	return err == nil && about.IsDir()
}

// stateProblem says why a file is refused.
func stateProblem(err error) string {
	for _, kind := range []error{dispensarytest.ErrNoSnapshot, dispensarytest.ErrSnapshotVersion, dispensarytest.ErrSnapshotDamaged} {
		if errors.Is(err, kind) {
			return inFlags.Replace(err.Error())
		}
	}
	return err.Error()
}

// run writes the file whenever something has changed, until ctx ends. A file that
// cannot be written ends it.
func (s *stateFile) run(ctx context.Context) error {
	for {
		next, _ := s.platform.Changes() // before the snapshot: what comes after it is seen
		began := time.Now()
		if err := s.save(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		case <-s.full:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(stateInterval - time.Since(began)):
		case <-s.full:
		}
	}
}

// save writes the platform as it is, unless the file has it.
func (s *stateFile) save() error {
	s.mark(func() { s.since = time.Time{} })
	now := s.platform.Snapshot()
	if s.written == nil || !now.Same(s.written) {
		if err := s.write(now); err != nil {
			return fmt.Errorf("-state: %w", err)
		}
		s.written = now
	}
	s.mark(func() { s.unsaved = s.since })
	return nil
}

// mark changes what answers wait for.
func (s *stateFile) mark(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.saved)
	s.saved = make(chan struct{})
}

// write puts a new file in the place of the old one. The system's cache is not
// trusted with either.
func (s *stateFile) write(snapshot *dispensarytest.Snapshot) error {
	file, err := os.OpenFile(s.name+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	to := bufio.NewWriterSize(file, 1<<20)
	if err := errors.Join(snapshot.Save(to), to.Flush(), file.Sync(), file.Close()); err != nil {
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

// end writes the file for the last time. What is changed from then on is answered to
// nobody.
func (s *stateFile) end() error {
	s.mark(func() { s.ended = true })
	return s.save()
}

// hold returns when an answer can be given: when it is not more than stateLag after
// the first one that the file does not know of. It returns with ctx as well, which
// ends with the connection.
func (s *stateFile) hold(ctx context.Context) {
	for {
		s.mu.Lock()
		now := time.Now()
		if !s.ended && (s.unsaved.IsZero() || now.Sub(s.unsaved) <= stateLag) {
			if s.unsaved.IsZero() {
				s.unsaved = now
			}
			if s.since.IsZero() {
				s.since = now
			}
			s.mu.Unlock()
			return
		}
		saved := s.saved
		s.mu.Unlock()
		select {
		case s.full <- struct{}{}:
		default: // it is known already
		}
		select {
		case <-saved:
		case <-ctx.Done():
			return
		}
	}
}

// holding has the answers of a handler wait where they have to.
func (s *stateFile) holding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		held := &heldAnswer{ResponseWriter: w, ready: sync.OnceFunc(func() { s.hold(r.Context()) })}
		next.ServeHTTP(held, r)
		held.ready()
	})
}

// heldAnswer is an answer of which nothing is sent before it is ready.
type heldAnswer struct {
	http.ResponseWriter
	ready func()
}

// WriteHeader implements [http.ResponseWriter].
func (h *heldAnswer) WriteHeader(status int) {
	h.ready()
	h.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (h *heldAnswer) Write(p []byte) (int, error) {
	h.ready()
	return h.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (h *heldAnswer) Unwrap() http.ResponseWriter { return h.ResponseWriter }
