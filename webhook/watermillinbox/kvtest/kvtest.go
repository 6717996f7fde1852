// Package kvtest holds an implementation of [watermillinbox.Store] to its
// contract. The stores of this module pass it, and whoever writes one of their own
// runs it too:
//
//	func TestStore(t *testing.T) {
//		kvtest.Run(t, func(t *testing.T) watermillinbox.Store { return newStore(t) })
//	}
package kvtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
)

type (
	store = watermillinbox.Store
	entry = watermillinbox.Entry
)

// Run runs the suite. It calls create, which makes an empty store, for every test
// in it.
func Run(t *testing.T, create func(*testing.T) watermillinbox.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, store){
		"Entries":         entries,
		"CreateSome":      createSome,
		"UpdateCompares":  updateCompares,
		"DeleteCompares":  deleteCompares,
		"DeletedIsGone":   deletedIsGone,
		"List":            list,
		"Purge":           purge,
		"Now":             now,
		"CreatedOnce":     createdOnce,
		"NoUpdateIsLost":  noUpdateIsLost,
		"ContextHasEnded": contextHasEnded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, create(t))
		})
	}
}

// made creates an entry and returns it with its revision.
func made(t *testing.T, s store, key, value string) entry {
	t.Helper()
	revisions, err := s.Create(t.Context(), entry{Key: key, Value: []byte(value)})
	require.NoError(t, err)
	require.Len(t, revisions, 1)
	require.NotZero(t, revisions[0])
	return entry{Key: key, Value: []byte(value), Revision: revisions[0]}
}

// holds asserts what the store has under a key: nothing, if want is nil.
func holds(t *testing.T, s store, key string, want *entry) {
	t.Helper()
	found, err := s.Get(t.Context(), key)
	require.NoError(t, err)
	got, ok := found[key]
	require.Equal(t, want != nil, ok, key)
	if ok {
		assert.Equal(t, want.Revision, got.Revision)
		assert.Equal(t, string(want.Value), string(got.Value))
		assert.Equal(t, key, got.Key)
	}
}

func entries(t *testing.T, s store) {
	holds(t, s, "a.b", nil)
	one, two := made(t, s, "a.b", "\x00\xff\r\n'"), made(t, s, watermillinbox.Kept+"a.-_Z9", "")
	big := made(t, s, "a.big", string(make([]byte, 200_000)))
	for _, e := range []entry{one, two, big} {
		holds(t, s, e.Key, &e)
	}
	_, err := s.Create(t.Context(), entry{Key: "a.nil"})
	require.NoError(t, err, "no value is an empty one")
	found, err := s.Get(t.Context(), "nothing", two.Key, one.Key)
	require.NoError(t, err)
	assert.Len(t, found, 2)
	found, err = s.Get(t.Context())
	require.NoError(t, err)
	assert.Empty(t, found)
	other := made(t, s, "A.b", "upper case is another key")
	holds(t, s, one.Key, &one)
	holds(t, s, other.Key, &other)
}

func createSome(t *testing.T, s store) {
	revisions, err := s.Create(t.Context(), entry{Key: "x.1", Value: []byte("1")}, entry{Key: watermillinbox.Kept + "x", Value: []byte("2"), Past: true})
	require.NoError(t, err)
	require.Len(t, revisions, 2)
	there := entry{Key: "x.1", Value: []byte("1"), Revision: revisions[0]}
	_, err = s.Create(t.Context(), entry{Key: "x.0", Value: []byte("new")}, entry{Key: "x.1", Value: []byte("other")}, entry{Key: "x.2", Value: []byte("new")})
	require.ErrorIs(t, err, watermillinbox.ErrExists)
	holds(t, s, "x.1", &there)
	found, err := s.Get(t.Context(), "x.0", "x.2")
	require.NoError(t, err)
	assert.Len(t, found, 2, "those that did not exist are stored all the same")
}

func updateCompares(t *testing.T, s store) {
	e := made(t, s, "u.1", "one")
	old := e
	for n := range 3 {
		e.Value = []byte(fmt.Sprint("update ", n))
		revision, err := s.Update(t.Context(), e)
		require.NoError(t, err)
		require.NotEqual(t, e.Revision, revision)
		e.Revision = revision
		holds(t, s, e.Key, &e)
	}
	_, err := s.Update(t.Context(), old)
	require.ErrorIs(t, err, watermillinbox.ErrConflict)
	holds(t, s, e.Key, &e)
	_, err = s.Update(t.Context(), entry{Key: "u.2", Value: []byte("never created"), Revision: e.Revision})
	require.ErrorIs(t, err, watermillinbox.ErrConflict)
	holds(t, s, "u.2", nil)
}

func deleteCompares(t *testing.T, s store) {
	old := made(t, s, "d.1", "one")
	revision, err := s.Update(t.Context(), old)
	require.NoError(t, err)
	e, other := entry{Key: old.Key, Value: old.Value, Revision: revision}, made(t, s, watermillinbox.Kept+"d", "two")
	require.ErrorIs(t, s.Delete(t.Context(), old, other), watermillinbox.ErrConflict)
	holds(t, s, e.Key, &e)
	holds(t, s, other.Key, nil)
	require.ErrorIs(t, s.Delete(t.Context(), e, other), watermillinbox.ErrConflict)
	require.ErrorIs(t, s.Delete(t.Context(), e), watermillinbox.ErrConflict)
	holds(t, s, e.Key, nil)
}

// deletedIsGone holds that a revision of before the deletion is none of the entry
// that comes after it.
func deletedIsGone(t *testing.T, s store) {
	before := made(t, s, "g.1", "before")
	require.NoError(t, s.Delete(t.Context(), before))
	_, err := s.Update(t.Context(), before)
	require.ErrorIs(t, err, watermillinbox.ErrConflict)
	after := made(t, s, "g.1", "after")
	_, err = s.Update(t.Context(), before)
	require.ErrorIs(t, err, watermillinbox.ErrConflict)
	require.ErrorIs(t, s.Delete(t.Context(), before), watermillinbox.ErrConflict)
	holds(t, s, "g.1", &after)
}

func keys(t *testing.T, s store, prefix string) (all []string) {
	t.Helper()
	for key, err := range s.List(t.Context(), prefix) {
		require.NoError(t, err)
		all = append(all, key)
	}
	return all
}

func list(t *testing.T, s store) {
	require.Empty(t, keys(t, s, "l."))
	var want []string
	for n := range 50 {
		want = append(want, fmt.Sprintf("l.%02d.x", n))
	}
	for _, key := range append([]string{"l.b-1.x", "l.b.2", "l.b.1", "l.b.10", "l.B.1", "lb.1", "k.1", "l-b.1", watermillinbox.Kept + "l.1"}, want...) {
		made(t, s, key, "value")
	}
	assert.Equal(t, append(want, "l.B.1", "l.b-1.x", "l.b.1", "l.b.10", "l.b.2"), keys(t, s, "l."))
	assert.Equal(t, []string{"l.b.1", "l.b.10", "l.b.2"}, keys(t, s, "l.b."))
	for key, err := range s.List(t.Context(), "l.b.") {
		require.NoError(t, err)
		assert.Equal(t, "l.b.1", key)
		break
	}
}

func purge(t *testing.T, s store) {
	past := func(key string) entry { return entry{Key: key, Value: []byte("value"), Past: true} }
	_, err := s.Create(t.Context(), past(watermillinbox.Kept+"p.1"))
	require.NoError(t, err)
	settled := made(t, s, watermillinbox.Kept+"p.2", "")
	_, err = s.Update(t.Context(), entry{Key: settled.Key, Value: settled.Value, Revision: settled.Revision, Past: true})
	require.NoError(t, err)
	back := past(watermillinbox.Kept + "p.3")
	revisions, err := s.Create(t.Context(), back)
	require.NoError(t, err)
	back.Past, back.Revision = false, revisions[0]
	back.Revision, err = s.Update(t.Context(), back)
	require.NoError(t, err)
	present := made(t, s, watermillinbox.Kept+"p.4", "value")
	begin, err := s.Now(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context(), begin.Add(-time.Hour)))
	found, err := s.Get(t.Context(), watermillinbox.Kept+"p.1", settled.Key)
	require.NoError(t, err)
	require.Len(t, found, 2, "they are not old yet")
	require.NoError(t, s.Purge(t.Context(), begin.Add(time.Hour)))
	holds(t, s, watermillinbox.Kept+"p.1", nil)
	holds(t, s, settled.Key, nil)
	holds(t, s, back.Key, &back)
	holds(t, s, present.Key, &present)
}

func now(t *testing.T, s store) {
	first, err := s.Now(t.Context())
	require.NoError(t, err)
	second, err := s.Now(t.Context())
	require.NoError(t, err)
	assert.False(t, second.Before(first))
	assert.WithinDuration(t, time.Now(), second, 24*time.Hour, "in some unit of its own")
}

func createdOnce(t *testing.T, s store) {
	for n := range 10 {
		var won atomic.Int32
		var group sync.WaitGroup
		for caller := range 8 {
			group.Go(func() {
				_, err := s.Create(context.Background(), entry{Key: fmt.Sprint("c.", n), Value: []byte(strconv.Itoa(caller))})
				if err == nil {
					won.Add(1)
					return
				}
				assert.ErrorIs(t, err, watermillinbox.ErrExists)
			})
		}
		group.Wait()
		assert.EqualValues(t, 1, won.Load())
	}
}

// noUpdateIsLost counts with several callers, each of whom has to compare.
func noUpdateIsLost(t *testing.T, s store) {
	const callers, each = 4, 15
	made(t, s, "n.1", "0")
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for done := 0; done < each && t.Context().Err() == nil; {
				found, err := s.Get(context.Background(), "n.1")
				if !assert.NoError(t, err) {
					return
				}
				e := found["n.1"]
				n, err := strconv.Atoi(string(e.Value))
				assert.NoError(t, err)
				e.Value = []byte(strconv.Itoa(n + 1))
				switch _, err = s.Update(context.Background(), e); {
				case err == nil:
					done++
				case !errors.Is(err, watermillinbox.ErrConflict):
					assert.NoError(t, err)
					return
				}
			}
		})
	}
	group.Wait()
	found, err := s.Get(t.Context(), "n.1")
	require.NoError(t, err)
	assert.Equal(t, strconv.Itoa(callers*each), string(found["n.1"].Value))
}

func contextHasEnded(t *testing.T, s store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	const canary = "Zaphod-Store-Canary"
	_, err := s.Create(ctx, entry{Key: "e.1", Value: []byte(canary)})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), canary)
	_, err = s.Get(ctx, "e.1")
	require.Error(t, err)
	ended := false
	for _, err := range s.List(ctx, "e.") {
		require.Error(t, err)
		ended = true
	}
	assert.True(t, ended, "a list that ended is not an empty one")
	holds(t, s, "e.1", nil)
}
