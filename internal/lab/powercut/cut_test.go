//go:build unix

package powercut_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/lab/mutant"
	"github.com/dispensary-go/dispensary/internal/lab/powercut"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// result is the result of checking images.
type result struct {
	steps, images int
	broken        []string // broken promises in the first bad image
	first         int      // number of the first bad image
}

func (r result) String() string {
	return fmt.Sprintf("%d images of a log of %d steps, broken promises: %d", r.images, r.steps, len(r.broken))
}

// check opens the database in a folder and returns the broken promises. An error counts as a
// broken promise.
type check func(folder string, image powercut.Image) (broken []string, err error)

// cutAll cuts the power after each step of a log and checks at least wanted images. It stops after
// the first image with a broken promise.
func cutAll(t *testing.T, log *powercut.Log, wanted int, check check) (r result) {
	t.Helper()
	seed := rand.Uint64()
	t.Log("seed", seed)
	r.steps = log.Len()
	images := make(chan powercut.Image)
	broken := make(chan struct{})
	var mu sync.Mutex
	var checkers sync.WaitGroup
	parent := t.TempDir()
	for range 2 * runtime.GOMAXPROCS(0) {
		checkers.Go(func() {
			folder, err := os.MkdirTemp(parent, "")
			assert.NoError(t, err)
			for image := range images {
				found := checkIn(folder, image, check)
				mu.Lock()
				r.images++
				if found != nil && r.broken == nil {
					r.broken, r.first = found, r.images
					close(broken)
				}
				mu.Unlock()
			}
		})
	}
	powercut.Cut(log, wanted, rand.New(rand.NewPCG(seed, 0)), func(image powercut.Image) bool {
		select {
		case images <- image:
			return true
		case <-broken:
			return false
		}
	})
	close(images)
	checkers.Wait()
	return r
}

// checkIn replaces the content of a folder by an image and checks it.
func checkIn(folder string, image powercut.Image, check check) []string {
	err := replaceImage(folder, image)
	var broken []string
	if err == nil {
		broken, err = check(folder, image)
	}
	if err != nil {
		broken = append(broken, err.Error())
	}
	if broken == nil {
		return nil
	}
	return append(broken, fmt.Sprintf("cut after step %d, loss %d", image.Step, image.Loss))
}

func replaceImage(folder string, image powercut.Image) error {
	before, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, file := range before {
		if err := os.Remove(filepath.Join(folder, file.Name())); err != nil {
			return err
		}
	}
	for name, data := range image.Files {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// inboxMutants returns mistakes that TestInbox must find.
func inboxMutants() []*mutant.Mutant {
	return []*mutant.Mutant{
		{Name: "syncs at checkpoints only", Rewrite: synchronous("NORMAL")},
		{Name: "never syncs", Rewrite: synchronous("OFF")},
		{Name: "reports success before the commit", Late: true},
	}
}

// TestInboxMutants checks that TestInbox finds each mistake, and logs the number of images until
// then.
func TestInboxMutants(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	for _, m := range inboxMutants() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			r := &inboxRun{ring: receivertest.KeyRing(t), open: func(path string, c sqlinbox.Config) (*sqlinbox.Inbox, func() error, error) {
				return openMutant(m, path, c)
			}}
			r.record(t)
			require.Positive(t, m.Applied())
			result := cutAll(t, r.log, inboxImages(), r.check)
			require.NotEmpty(t, result.broken, "%s", result)
			t.Logf("found in image %d: %s", result.first, result.broken[0])
		})
	}
}

// synchronous lowers the synchronous level of the database to level. Queries of the level still
// return FULL.
func synchronous(level string) func(string) string {
	return func(query string) string {
		switch query {
		case "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL":
			return "PRAGMA synchronous = " + level
		case "PRAGMA synchronous":
			return "SELECT 2"
		}
		return query
	}
}

// openMutant opens an inbox with a mistake.
func openMutant(m *mutant.Mutant, path string, c sqlinbox.Config) (*sqlinbox.Inbox, func() error, error) {
	dsn, err := sqlinbox.DSN(path)
	if err != nil {
		return nil, nil, err
	}
	db, err := m.Open("sqlite", dsn)
	if err != nil {
		return nil, nil, err
	}
	if err := sqlinbox.Migrate(context.Background(), db); err != nil {
		return nil, nil, err
	}
	inbox, err := sqlinbox.New(db, c)
	return inbox, db.Close, err
}
