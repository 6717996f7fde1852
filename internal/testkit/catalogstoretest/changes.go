package catalogstoretest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changes are the tests of Changes.
var changes = map[string]func(*testing.T, opener){
	"Changes":         changesInOrder,
	"ChangesAreSmall": changesAreSmall,
}

func changesInOrder(t *testing.T, open opener) {
	store := open()
	w := began(t, store, 0)
	saved(t, store, &w, 1, listedAll("a", "b", "c")...)
	first := feed(t, store, 0, 10)
	assert.ElementsMatch(t, []string{"a", "b", "c"}, idsOf(first))
	last := first[2].Revision
	assert.EqualValues(t, 3, last)
	assert.Equal(t, last, state(t, store).Revision)
	assert.Empty(t, feed(t, store, last, 10))

	saved(t, store, &w, 2, listed("a", "New"))
	saved(t, store, &w, 3, listed("b", "New"))
	saved(t, store, &w, 4, listed("a", "Newer"))
	news := feed(t, store, last, 10)
	assert.Equal(t, []string{"b", "a"}, idsOf(news), "each record once, at its last change")
	assert.Equal(t, "Newer", news[1].Product.Name, "the current record")
	assert.Equal(t, []string{"c", "b", "a"}, idsOf(feed(t, store, 0, 10)))
	assert.Equal(t, news[1].Revision, state(t, store).Revision)

	completed(t, store, w)
	completed(t, store, began(t, store, 100))
	w = began(t, store, 200)
	completed(t, store, w, "c")
	gone := feed(t, store, 0, 10)
	assert.Len(t, gone, 3)
	assert.Equal(t, "c", gone[2].Product.ID, "Changes returns gone records")
	assert.Empty(t, feed(t, store, state(t, store).Revision+100, 10))
}

func changesAreSmall(t *testing.T, open opener) {
	store := open()
	w := began(t, store, 0)
	saved(t, store, &w, 1, listedAll("a", "b", "c", "d", "e")...)
	for round := range 60 { // enough rounds for a store to remove old entries
		saved(t, store, &w, 2+round, listed("c", "New "+string(rune('A'+round))), listed("a", "New "+string(rune('A'+round))))
	}
	all := feed(t, store, 0, 100)
	require.Len(t, all, 5)
	for _, limit := range []int{1, 2, 3, 5} {
		assert.Equal(t, all, feed(t, store, 0, limit), limit)
	}
	assert.Equal(t, all[2:], feed(t, store, all[1].Revision, 2))
	assert.EqualValues(t, 5+120, all[4].Revision)
}
