package catalogstoretest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// requests are the tests of requests for single products.
var requests = map[string]func(*testing.T, opener){
	"Request":           request,
	"Answered":          answered,
	"Drop":              drop,
	"ManyRequests":      manyRequests,
	"RequestsFromLists": requestsFromLists,
}

func asked(t testing.TB, store catalogstore.Store, second int, ids ...string) {
	t.Helper()
	require.NoError(t, store.Request(t.Context(), at(second), ids...))
}

func request(t *testing.T, open opener) {
	store := open()
	asked(t, store, 5, "unknown", "a")
	asked(t, store, 9, "a")
	assert.Equal(t, []catalogstore.Request{{ProductID: "unknown", At: kept(at(5))}, {ProductID: "a", At: kept(at(9))}}, requested(t, store), "once, at the latest time")
	assert.Equal(t, 2, state(t, store).Requested)
	asked(t, store, 7, "a")
	assert.Equal(t, kept(at(9)).Add(time.Microsecond), requested(t, store)[1].At, "a read in progress does not answer the second request")
	asked(t, store, 20, "b", "b")
	asked(t, store, 30)
	assert.Equal(t, 3, state(t, store).Requested)
	assert.Empty(t, state(t, store).Records, "a request creates no record")
	assert.Zero(t, state(t, store).Revision)
}

func answered(t *testing.T, open opener) {
	store := open()
	asked(t, store, 5, "a", "b")
	detailed(t, store, 4, single("a", "A", ""))
	assert.Len(t, requested(t, store), 2, "the request is younger than the read")
	detailed(t, store, 5, single("a", "A", ""))
	assert.Len(t, requested(t, store), 1, "a is answered")
	detailed(t, store, 6, single("c", "C", ""))
	assert.Len(t, requested(t, store), 1)
	asked(t, store, 5, "b")
	detailed(t, store, 5, single("b", "B", ""))
	assert.Len(t, requested(t, store), 1, "the second request at that time is a microsecond younger")
	detailed(t, store, 6, single("b", "B", ""))
	assert.Empty(t, requested(t, store))
}

func drop(t *testing.T, open opener) {
	store := open()
	asked(t, store, 5, "a", "b")
	old := requested(t, store)[0]
	asked(t, store, 5, "a")
	require.NoError(t, store.Drop(t.Context(), old))
	assert.Len(t, requested(t, store), 2, "a younger request has replaced it")
	require.NoError(t, store.Drop(t.Context(), requested(t, store)[1]))
	require.NoError(t, store.Drop(t.Context(), catalogstore.Request{ProductID: "unknown", At: t0}))
	assert.Equal(t, []catalogstore.Request{{ProductID: "b", At: kept(at(5))}}, requested(t, store))
	require.NoError(t, store.Drop(t.Context(), catalogstore.Request{ProductID: "b", At: at(6)}))
	assert.Empty(t, requested(t, store))
}

func manyRequests(t *testing.T, open opener) {
	store := open()
	var ids []string
	for n := range 5_000 {
		ids = append(ids, fmt.Sprintf("product-%04d", n))
	}
	asked(t, store, 1, ids...)
	asked(t, store, 2, ids[:10]...)
	assert.Equal(t, 5_000, state(t, store).Requested)
	some, err := store.Requested(t.Context(), 4_991)
	require.NoError(t, err)
	assert.Equal(t, kept(at(1)), some[4_989].At)
	assert.Equal(t, kept(at(2)), some[4_990].At)
}

// requestsFromLists saves lists. If a list changes a product with details, the product must be
// requested, as after an event.
func requestsFromLists(t *testing.T, open opener) {
	store := open()
	detailed(t, store, 1, single("a", "A", ""))
	asked(t, store, 20, "a")
	w := began(t, store, 2)
	saved(t, store, &w, 10, listed("a", "B"))
	assert.Equal(t, []catalogstore.Request{{ProductID: "a", At: kept(at(20)).Add(time.Microsecond)}}, requested(t, store))
	detailed(t, store, 30, single("a", "B", ""))
	saved(t, store, &w, 25, listed("a", "Old"))
	assert.Empty(t, requested(t, store), "the details are newer than the list")
	detailed(t, store, 31, single("b", "B", ""))
	completed(t, store, w)
	completed(t, store, began(t, store, 40))
	assert.Equal(t, catalogstore.PresenceMissing, presence(t, store, "b"))
	w = began(t, store, 50)
	saved(t, store, &w, 51, listed("b", "B"))
	assert.Empty(t, requested(t, store), "a reappeared product has the same content")
}
