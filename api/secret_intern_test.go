package api

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func isInterned(text string) bool {
	interned.Lock()
	defer interned.Unlock()
	_, ok := interned.texts[text]
	return ok
}

func TestUnusedSecretsAreFreed(t *testing.T) {
	t.Parallel()
	kept := NewSecret(fmt.Sprint("kept-", t.Name()))
	unused := fmt.Sprint("unused-", t.Name())
	NewSecret(unused)
	assert.True(t, isInterned(unused))
	for isInterned(unused) { // cleanups run after the collection, with a delay
		runtime.GC()
	}
	assert.True(t, isInterned(kept.Reveal()))
	assert.True(t, kept == NewSecret(fmt.Sprint("kept-", t.Name())))
}

func TestConcurrentSecretsCompareByText(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 2000 {
				text := fmt.Sprint(t.Name(), i%7)
				first, second := NewSecret(text), NewSecret(text)
				assert.True(t, first == second && first.Reveal() == text)
				if i%500 == 0 {
					runtime.GC()
				}
			}
		})
	}
	group.Wait()
}
