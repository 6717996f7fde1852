package table

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type row struct{ ID, Owner, Name string }

func describe(r *row) Entry {
	e := Entry{ID: r.ID, Text: r.Name}
	if r.Owner != "" {
		e.Keys = []Key{{"owner", r.Owner}}
	}
	return e
}

// same compares a table with the rows that it should contain, in the order of creation.
func same(t *testing.T, want []row, have Table[*row]) {
	t.Helper()
	list := func(rows []*row) (all []row) {
		for _, r := range rows {
			all = append(all, *r)
		}
		return all
	}
	require.Equal(t, want, list(have.Rows))
	for _, owner := range []string{"a", "b", "c"} {
		of := Where(want, func(r row) bool { return r.Owner == owner })
		require.Equal(t, of, list(Of(have, "owner", owner)), owner)
		found := Where(of, func(r row) bool { return strings.Contains(strings.ToLower(r.Name), "x1") })
		require.Equal(t, found, list(Search(have, "owner", owner, " X1 ")), owner)
	}
	require.Empty(t, Of(have, "owner", ""))
	for _, r := range want {
		known, exists := Get(have, r.ID)
		require.True(t, exists)
		require.Equal(t, r, *known)
	}
	_, exists := Get(have, "none")
	require.False(t, exists)
}

// A table and its copies equal plain slices after any sequence of changes.
func TestTableEqualsPlainSlice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		dice := rand.New(rand.NewPCG(seed, 0))
		type pair struct {
			table Table[*row]
			rows  []row
		}
		live, copies := new(pair), []*pair(nil)
		require.NoError(t, Index(&live.table, describe))
		for step := range 400 {
			switch dice.IntN(20) {
			case 0:
				copies = append(copies, &pair{Share(&live.table), slices.Clone(live.rows)})
			case 1: // continue with a copy
				copies = append(copies, live)
				live = &pair{live.table, slices.Clone(live.rows)}
			case 2, 3, 4:
				at := 0
				if dice.IntN(2) == 0 && len(live.rows) > 0 {
					at = dice.IntN(len(live.rows))
				}
				if len(live.rows) > 0 {
					Remove(&live.table, live.rows[at].ID)
					live.rows = slices.Delete(live.rows, at, at+1)
				}
				Remove(&live.table, "none")
			default:
				r := row{fmt.Sprint(dice.IntN(40)), []string{"", "a", "b", "c"}[dice.IntN(4)], fmt.Sprintf("X%d\n%d", dice.IntN(20), step)}
				Put(&live.table, &r)
				if at := slices.IndexFunc(live.rows, func(old row) bool { return old.ID == r.ID }); at >= 0 {
					live.rows[at] = r
				} else {
					live.rows = append(live.rows, r)
				}
			}
		}
		for _, p := range append(copies, live) {
			if len(p.rows) > 0 {
				same(t, p.rows, p.table)
			}
		}
	}
}

func TestIndexLoadsDecodedRows(t *testing.T) {
	t.Parallel()
	var one, again Table[*row]
	require.NoError(t, Index(&one, describe))
	Put(&one, &row{"2", "a", "Second"})
	Put(&one, &row{"1", "a", "First"})
	line, err := json.Marshal(one)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(line, &again))
	require.NoError(t, Index(&again, describe))
	same(t, []row{{"2", "a", "Second"}, {"1", "a", "First"}}, again)
	again.Rows = append(again.Rows, &row{ID: "1"})
	require.ErrorContains(t, Index(&again, describe), "a row occurs twice")
	again.Rows = append(again.Rows, nil)
	require.ErrorContains(t, Index(&again, describe), "a row is missing")
}

func TestSearchNeedsEveryWord(t *testing.T) {
	t.Parallel()
	var rows Table[*row]
	require.NoError(t, Index(&rows, describe))
	Put(&rows, &row{"1", "a", "Éric\nDoe"})
	Put(&rows, &row{"2", "a", "Cire\nEod"})
	Put(&rows, &row{"3", "b", "Éric\nDoe"})
	for query, want := range map[string]int{"éric": 1, "DOE ÉRI": 1, "doe cire": 0, "": 2, " ": 2, "eo": 1, "ericdoe": 0} {
		assert.Len(t, Search(rows, "owner", "a", query), want, query)
	}
	assert.Empty(t, Search(rows, "owner", "c", ""))
}

func TestRowKeepsTextOfPutText(t *testing.T) {
	t.Parallel()
	var rows Table[*row]
	require.NoError(t, Index(&rows, func(r *row) Entry { return Entry{ID: r.ID, Keys: []Key{{"owner", r.Owner}}} }))
	found := func(query string) (ids []string) {
		for _, r := range Search(rows, "owner", "a", query) {
			ids = append(ids, r.ID)
		}
		return ids
	}
	Put(&rows, &row{"1", "a", ""})
	PutText(&rows, &row{"2", "a", ""}, "Two")
	Put(&rows, &row{"3", "a", ""})
	Put(&rows, &row{"2", "a", "changed"})
	PutText(&rows, &row{"3", "a", ""}, "Three")
	assert.Equal(t, []string{"2"}, found("two"))
	assert.Equal(t, []string{"3"}, found("THREE"))
	PutText(&rows, &row{"2", "a", ""}, "New")
	Remove(&rows, "1")
	assert.Empty(t, found("two"))
	assert.Equal(t, []string{"2"}, found("new"))
}
