package table

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// item is a row of the tables under test.
type item struct{ ID, Name string }

func TestForkedTablesDoNotShareWrites(t *testing.T) {
	t.Parallel()
	var origin Table[*item]
	for i := range 3 * ChunkSize {
		id := fmt.Sprint(i)
		origin.Put(id, &item{ID: id, Name: "old"})
	}
	one, two := origin.Fork(), origin.Fork()
	one.Put("5", &item{ID: "5", Name: "changed"})
	one.Put("new", &item{ID: "new"})
	nested := one.Fork()
	nested.Put("6", &item{ID: "6", Name: "nested"})

	name := func(rows *Table[*item], id string) string {
		row, ok := rows.Get(id)
		if !ok {
			return "missing"
		}
		return row.Name
	}
	assert.Equal(t, "changed", name(&one, "5"))
	assert.Equal(t, "old", name(&origin, "5"))
	assert.Equal(t, "missing", name(&two, "new"))
	assert.Equal(t, "changed", name(&nested, "5"))
	assert.Equal(t, "old", name(&one, "6"))
	assert.Equal(t, 3*ChunkSize+1, nested.Len())
	assert.Equal(t, "new", nested.At(3*ChunkSize).ID, "rows keep the order they were created in")
}

func TestForkedLookupsDoNotShareWrites(t *testing.T) {
	t.Parallel()
	var origin Map[string, string]
	origin.Put("a", "1")
	one := origin.Fork()
	one.Put("a", "")
	two := one.Fork()
	two.Put("b", "2")
	assert.Equal(t, "1", origin.Get("a"))
	assert.Empty(t, one.Get("a"))
	assert.Empty(t, two.Get("a"))
	assert.Equal(t, "2", two.Get("b"))
	assert.Empty(t, one.Get("b"))
}

// A table and its forks behave as so many maps that remember the order of their
// keys, whatever is done to them in whatever order.
func TestTablesAgainstMaps(t *testing.T) {
	t.Parallel()
	type reference struct {
		Index []string
		rows  map[string]string
	}
	for seed := range uint64(50) {
		source := rand.New(rand.NewPCG(seed, 1))
		tables, references := []*Table[*item]{{}}, []*reference{{rows: map[string]string{}}}
		frozenAt := map[int]bool{} // origins of forks must not be written any more
		for step := range 600 {
			at := source.IntN(len(tables))
			if source.IntN(100) == 0 && len(tables) < 8 {
				fork := tables[at].Fork()
				frozenAt[at] = true
				tables = append(tables, &fork)
				references = append(references, &reference{Index: slices.Clone(references[at].Index), rows: maps.Clone(references[at].rows)})
				continue
			}
			if frozenAt[at] {
				continue
			}
			id, name := fmt.Sprint(source.IntN(400)), fmt.Sprint(step)
			tables[at].Put(id, &item{ID: id, Name: name})
			if _, known := references[at].rows[id]; !known {
				references[at].Index = append(references[at].Index, id)
			}
			references[at].rows[id] = name
		}
		for i, rows := range tables {
			var order []string
			for row := range rows.All() {
				order = append(order, row.ID)
				assert.Equal(t, references[i].rows[row.ID], row.Name)
			}
			assert.Equal(t, references[i].Index, order, "seed %d", seed)
			assert.Equal(t, len(references[i].Index), rows.Len())
			for id, name := range references[i].rows {
				got, known := rows.Get(id)
				assert.True(t, known && got.Name == name)
			}
			_, known := rows.Get("never")
			assert.False(t, known)
		}
	}
}
