package catalogstoretest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// races are the tests with concurrent callers on several handles.
var races = map[string]func(*testing.T, opener){
	"OneLock":             oneLock,
	"OneBegins":           oneBegins,
	"NoChangeIsSkipped":   noChangeIsSkipped,
	"RequestsDuringReads": requestsDuringReads,
}

const (
	handles = 3
	callers = 3 // per handle
)

// runConcurrently runs act for all callers at once and waits for them.
func runConcurrently(open opener, act func(store catalogstore.Store, caller int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for handle := range handles {
		store := open()
		for caller := range callers {
			wg.Go(func() {
				<-start
				act(store, handle*callers+caller)
			})
		}
	}
	close(start)
	wg.Wait()
}

func oneLock(t *testing.T, open opener) {
	var inside, won atomic.Int32
	runConcurrently(open, func(store catalogstore.Store, _ int) {
		for range 5 {
			unlock, err := store.Lock(t.Context())
			if err != nil {
				assert.ErrorIs(t, err, catalogstore.ErrSyncing)
				continue
			}
			won.Add(1)
			assert.EqualValues(t, 1, inside.Add(1))
			inside.Add(-1)
			assert.NoError(t, unlock())
		}
	})
	assert.Positive(t, won.Load())
}

func oneBegins(t *testing.T, open opener) {
	for generation := int64(1); generation <= 5; generation++ {
		var won atomic.Int32
		runConcurrently(open, func(store catalogstore.Store, caller int) {
			err := store.Begin(t.Context(), catalogstore.Walk{Generation: generation, StartedAt: t0, Requests: caller})
			if err == nil {
				won.Add(1)
				return
			}
			assert.ErrorIs(t, err, catalogstore.ErrSuperseded)
		})
		require.EqualValues(t, 1, won.Load())
		assert.Equal(t, generation, state(t, open()).Newest.Generation)
	}
}

// noChangeIsSkipped reads changes during concurrent writes. If a reader continues from its last
// revision, it must end with the same records as a reader from 0.
func noChangeIsSkipped(t *testing.T, open opener) {
	const rounds = 8
	store := open()
	w := began(t, store, 0)
	done := make(chan struct{})
	read := map[string]string{}
	var reading sync.WaitGroup
	reading.Go(func() {
		reader, after := open(), int64(0)
		for ended := false; ; {
			some, err := reader.Changes(t.Context(), after, 3)
			if !assert.NoError(t, err) {
				return
			}
			for _, r := range some {
				assert.Greater(t, r.Revision, after)
				after, read[r.Product.ID] = r.Revision, r.Hash
			}
			if len(some) > 0 {
				continue
			}
			if ended {
				return
			}
			select {
			case <-done:
				ended = true // then read once more
			default:
			}
		}
	})
	runConcurrently(open, func(store catalogstore.Store, caller int) {
		for round := range rounds {
			own, name := fmt.Sprintf("own-%d-%d", caller, round), fmt.Sprintf("by %d in %d", caller, round)
			var err error
			if caller%2 == 0 {
				_, err = store.SaveDetails(t.Context(), at(caller*rounds+round), single("shared", name, name))
				assert.NoError(t, err)
				_, err = store.SaveDetails(t.Context(), at(1), single(own, name, name))
			} else {
				_, err = store.SavePage(t.Context(), w, page(t, caller*rounds+round, listed("shared", name), listed(own, name)))
			}
			assert.NoError(t, err)
		}
	})
	close(done)
	reading.Wait()
	want := map[string]string{}
	seen := map[int64]bool{}
	for _, r := range feed(t, store, 0, 100) {
		want[r.Product.ID] = r.Hash
		assert.False(t, seen[r.Revision])
		seen[r.Revision] = true
	}
	assert.Equal(t, want, read)
	assert.Len(t, want, 1+handles*callers*rounds)
	assert.Equal(t, len(want), state(t, store).Records[catalogstore.PresencePresent])
}

// requestsDuringReads requests a product while other callers read it. If a request is younger
// than the last read, it must stay.
func requestsDuringReads(t *testing.T, open opener) {
	const rounds = 10
	runConcurrently(open, func(store catalogstore.Store, caller int) {
		for round := range rounds {
			if caller%2 == 0 {
				assert.NoError(t, store.Request(t.Context(), at(round), "a", fmt.Sprint(caller)))
				continue
			}
			_, err := store.SaveDetails(t.Context(), at(round), single("a", "A", ""))
			assert.NoError(t, err)
		}
	})
	store := open()
	asked(t, store, 100, "a")
	const asking = (handles*callers + 1) / 2
	detailed(t, store, 99, single("a", "A", ""))
	assert.Equal(t, asking+1, state(t, store).Requested)
	detailed(t, store, 100, single("a", "A", ""))
	assert.Equal(t, asking, state(t, store).Requested)
}
