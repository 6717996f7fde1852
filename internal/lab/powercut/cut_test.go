//go:build unix

package powercut_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/lab/powercut"
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
