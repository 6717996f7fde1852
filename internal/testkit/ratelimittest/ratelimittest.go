// Package ratelimittest tests the promises of a [ratelimit.Store]: single exchanges, and eight
// processes that keep to a limit, also while the server is killed.
package ratelimittest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/ratelimit"
)

// Run tests a store. Open returns an empty one, which is closed with its test; it is called
// more than once.
func Run(t *testing.T, open func(*testing.T) ratelimit.Store) {
	for name, test := range map[string]func(*testing.T, ratelimit.Store){
		"Exchange":     testExchange,
		"Names":        testNames,
		"Keep":         testKeep,
		"Bytes":        testBytes,
		"Concurrently": testConcurrently,
		"Fleet":        testFleet,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// keep is longer than a test takes.
const keep = 24 * time.Hour

// exchangeOf leaves a text, and returns the texts of all.
func exchangeOf(t *testing.T, s ratelimit.Store, name, process, text string) (ratelimit.Board, map[string]string) {
	t.Helper()
	board, err := s.Exchange(t.Context(), name, process, []byte(text), keep)
	require.NoError(t, err)
	texts := map[string]string{}
	for id, r := range board.Records {
		texts[id] = string(r.Data)
		assert.False(t, r.At.After(board.Now), "a record is not of the future")
	}
	return board, texts
}

func testExchange(t *testing.T, s ratelimit.Store) {
	first, texts := exchangeOf(t, s, "limit", "a", "1")
	assert.Equal(t, map[string]string{"a": "1"}, texts)
	second, texts := exchangeOf(t, s, "limit", "b", "2")
	assert.Equal(t, map[string]string{"a": "1", "b": "2"}, texts)
	assert.Equal(t, first.Records["a"].At.UnixMicro(), second.Records["a"].At.UnixMicro(), "it was not stored again")
	assert.False(t, second.Now.Before(first.Now))
	third, texts := exchangeOf(t, s, "limit", "a", "3")
	assert.Equal(t, map[string]string{"a": "3", "b": "2"}, texts)
	assert.False(t, third.Records["a"].At.Before(second.Records["b"].At))
}

func testNames(t *testing.T, s ratelimit.Store) {
	names := []string{"", "limit", "LIMIT", "limit:a", "limit a", "ü'\"\\%_"}
	for _, name := range names {
		_, texts := exchangeOf(t, s, name, "a", name)
		assert.Equal(t, map[string]string{"a": name}, texts, "names are apart")
	}
}

func testKeep(t *testing.T, s ratelimit.Store) {
	_, _ = exchangeOf(t, s, "limit", "a", "1")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		board, err := s.Exchange(t.Context(), "limit", "b", nil, time.Millisecond)
		require.NoError(c, err)
		assert.NotContains(c, board.Records, "a")
		assert.Contains(c, board.Records, "b")
	}, time.Minute, 5*time.Millisecond)
	_, texts := exchangeOf(t, s, "limit", "c", "3")
	assert.NotContains(t, texts, "a", "it was deleted")
}

func testBytes(t *testing.T, s ratelimit.Store) {
	for _, text := range []string{"", "\x00\xff\r\n", strings.Repeat("x", 1<<16)} {
		_, texts := exchangeOf(t, s, "limit", "a", text)
		assert.Equal(t, map[string]string{"a": text}, texts)
	}
}

// Of two exchanges, one sees the record of the other.
func testConcurrently(t *testing.T, s ratelimit.Store) {
	for round := range 20 {
		var mu sync.Mutex
		saw := map[[2]string]bool{}
		var wg sync.WaitGroup
		for _, id := range []string{"a", "b", "c", "d"} {
			wg.Go(func() {
				_, texts := exchangeOf(t, s, fmt.Sprint("limit", round), id, "")
				mu.Lock()
				defer mu.Unlock()
				for other := range texts {
					saw[[2]string{id, other}] = true
				}
			})
		}
		wg.Wait()
		for _, pair := range []string{"ab", "ac", "ad", "bc", "bd", "cd"} {
			one, other := pair[:1], pair[1:]
			assert.True(t, saw[[2]string{one, other}] || saw[[2]string{other, one}], "%s and %s did not see each other", one, other)
		}
	}
}

// Within returns a view of a store that has its own names, for a server that several tests use.
func Within(s ratelimit.Store, prefix string) ratelimit.Store { return within{s, prefix} }

type within struct {
	ratelimit.Store
	prefix string
}

func (w within) Exchange(ctx context.Context, name, process string, record []byte, keep time.Duration) (ratelimit.Board, error) {
	return w.Store.Exchange(ctx, w.prefix+name, process, record, keep)
}
