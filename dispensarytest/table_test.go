package dispensarytest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestForkedTablesDoNotShareWrites(t *testing.T) {
	t.Parallel()
	var origin table[Term]
	for i := range 3 * chunkSize {
		id := fmt.Sprint(i)
		origin.put(id, &Term{ID: id, Name: "old"})
	}
	one, two := origin.fork(), origin.fork()
	one.put("5", &Term{ID: "5", Name: "changed"})
	one.put("new", &Term{ID: "new"})
	nested := one.fork()
	nested.put("6", &Term{ID: "6", Name: "nested"})

	name := func(rows *table[Term], id string) string {
		row, ok := rows.get(id)
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
	assert.Equal(t, 3*chunkSize+1, nested.len())
	assert.Equal(t, "new", nested.at(3*chunkSize).ID, "rows keep the order they were created in")
}

func TestForkedLookupsDoNotShareWrites(t *testing.T) {
	t.Parallel()
	var origin layers[string, string]
	origin.put("a", "1")
	one := origin.fork()
	one.put("a", "")
	two := one.fork()
	two.put("b", "2")
	assert.Equal(t, "1", origin.get("a"))
	assert.Empty(t, one.get("a"))
	assert.Empty(t, two.get("a"))
	assert.Equal(t, "2", two.get("b"))
	assert.Empty(t, one.get("b"))
}

func TestCents(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "34.99", Cents(3499).String())
	assert.Equal(t, "0.05", Cents(5).String())
	assert.Equal(t, "-1.50", Cents(-150).String())
	assert.Equal(t, Cents(3149), Cents(3499).less(10))
}

// A table and its forks behave as so many maps that remember the order of their
// keys, whatever is done to them in whatever order.
func TestTablesAgainstMaps(t *testing.T) {
	t.Parallel()
	type reference struct {
		order []string
		rows  map[string]string
	}
	for seed := range uint64(50) {
		source := rand.New(rand.NewPCG(seed, 1))
		tables, references := []*table[Term]{{}}, []*reference{{rows: map[string]string{}}}
		frozenAt := map[int]bool{} // origins of forks must not be written any more
		for step := range 600 {
			at := source.IntN(len(tables))
			if source.IntN(100) == 0 && len(tables) < 8 {
				fork := tables[at].fork()
				frozenAt[at] = true
				tables = append(tables, &fork)
				references = append(references, &reference{order: slices.Clone(references[at].order), rows: maps.Clone(references[at].rows)})
				continue
			}
			if frozenAt[at] {
				continue
			}
			id, name := fmt.Sprint(source.IntN(400)), fmt.Sprint(step)
			tables[at].put(id, &Term{ID: id, Name: name})
			if _, known := references[at].rows[id]; !known {
				references[at].order = append(references[at].order, id)
			}
			references[at].rows[id] = name
		}
		for i, rows := range tables {
			var order []string
			for row := range rows.all() {
				order = append(order, row.ID)
				assert.Equal(t, references[i].rows[row.ID], row.Name)
			}
			assert.Equal(t, references[i].order, order, "seed %d", seed)
			assert.Equal(t, len(references[i].order), rows.len())
			for id, name := range references[i].rows {
				got, known := rows.get(id)
				assert.True(t, known && got.Name == name)
			}
			_, known := rows.get("never")
			assert.False(t, known)
		}
	}
}
