package table

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"
)

// blockSize is how many seats a block of an order holds at most.
const blockSize = 512

// Index keeps the seats of a table's rows sorted: by the keys that make a group, in a
// group by another one, and among equals in the order of creation. Part of a list is
// read from it, and its rows are counted, without a walk through the others.
type Index[R any] struct {
	by   []func(R) string
	then func(a, b R) int // nil where a group has the order of creation

	blocks [][]int32 // none is empty
	mine   []bool    // blocks that are ours to write

	// shuffled says that the rows of some group are not in the order of creation.
	shuffled bool
}

func (o *Index[R]) compare(a, b R) int {
	if c := o.groups(a, b); c != 0 || o.then == nil {
		return c
	}
	return o.then(a, b)
}

// Comparer compares for a list that is sorted one way or the other; equal rows keep the
// order of creation in both.
func (o *Index[R]) Comparer(descending bool) func(a, b R) int {
	if descending {
		return func(a, b R) int { return o.compare(b, a) }
	}
	return o.compare
}

func (o *Index[R]) groups(a, b R) int {
	for _, key := range o.by {
		if c := strings.Compare(key(a), key(b)); c != 0 {
			return c
		}
	}
	return 0
}

// find returns where a row of a seat stands, or would: block and index.
func (o *Index[R]) find(rows *column[R], n int, row R) (block, index int) {
	before := func(other int32) int {
		if int(other) == n {
			return 0 // the row there may have been replaced
		}
		return cmp.Or(o.compare(rows.At(int(other)), row), cmp.Compare(int(other), n))
	}
	if last := len(o.blocks) - 1; last >= 0 && before(o.blocks[last][len(o.blocks[last])-1]) < 0 {
		return last, len(o.blocks[last]) // what comes last is added most
	}
	block = sort.Search(len(o.blocks), func(b int) bool { return before(o.blocks[b][len(o.blocks[b])-1]) >= 0 })
	if block == len(o.blocks) {
		return block, 0
	}
	index = sort.Search(len(o.blocks[block]), func(i int) bool { return before(o.blocks[block][i]) >= 0 })
	return block, index
}

// add puts the row of a new seat in its place.
func (o *Index[R]) add(rows *column[R], n int) {
	block, index := o.find(rows, n, rows.At(n))
	if block == len(o.blocks) {
		o.blocks, o.mine = append(o.blocks, make([]int32, 0, blockSize)), append(o.mine, true)
	}
	if len(o.blocks[block]) == blockSize {
		block, index = o.split(block, index)
	}
	o.own(block)
	o.blocks[block] = slices.Insert(o.blocks[block], index, int32(n))
	o.notice(rows, block, index)
}

// split makes two blocks of a full one; where something is added at the very end,
// an empty one.
func (o *Index[R]) split(block, index int) (int, int) {
	at := blockSize / 2
	if block == len(o.blocks)-1 && index == blockSize {
		at = blockSize
	}
	whole := o.blocks[block]
	left := append(make([]int32, 0, blockSize), whole[:at]...)
	right := append(make([]int32, 0, blockSize), whole[at:]...)
	o.blocks, o.mine = slices.Insert(o.blocks, block+1, right), slices.Insert(o.mine, block+1, true)
	o.blocks[block], o.mine[block] = left, true
	if index >= at {
		return block + 1, index - at
	}
	return block, index
}

func (o *Index[R]) own(block int) {
	if !o.mine[block] {
		o.blocks[block] = append(make([]int32, 0, blockSize), o.blocks[block]...)
		o.mine[block] = true
	}
}

// notice finds out whether a row stands where the order of creation has it.
func (o *Index[R]) notice(rows *column[R], block, index int) {
	if o.then == nil || o.shuffled {
		return
	}
	n := o.blocks[block][index]
	beside := func(block, index int) (int32, bool) {
		if index < 0 {
			if block--; block < 0 {
				return 0, false
			}
			index = len(o.blocks[block]) - 1
		} else if index == len(o.blocks[block]) {
			if block++; block == len(o.blocks) {
				return 0, false
			}
			index = 0
		}
		other := o.blocks[block][index]
		return other, o.groups(rows.At(int(other)), rows.At(int(n))) == 0
	}
	before, known := beside(block, index-1)
	o.shuffled = known && before > n
	if after, known := beside(block, index+1); known && after < n {
		o.shuffled = true
	}
}

// remove takes the row of a seat out; the table may have another one there already.
func (o *Index[R]) remove(rows *column[R], n int, row R) {
	block, index := o.find(rows, n, row)
	o.own(block)
	if o.blocks[block] = slices.Delete(o.blocks[block], index, index+1); len(o.blocks[block]) == 0 {
		o.blocks, o.mine = slices.Delete(o.blocks, block, block+1), slices.Delete(o.mine, block, block+1)
	}
}

// move brings a row that took another's seat to its place.
func (o *Index[R]) move(rows *column[R], n int, old R) {
	if o.compare(old, rows.At(n)) != 0 {
		o.remove(rows, n, old)
		o.add(rows, n)
	}
}

// share gives up what is ours.
func (o *Index[R]) share() { o.mine = make([]bool, len(o.blocks)) }

func (o *Index[R]) fork() Index[R] {
	f := *o
	f.blocks = slices.Clone(o.blocks)
	f.mine = make([]bool, len(o.blocks))
	return f
}

// count is how many rows stand before the first of which a condition does not hold.
// The condition holds for a beginning of the order.
func (o *Index[R]) count(rows *column[R], holds func(R) bool) (n int) {
	block := sort.Search(len(o.blocks), func(b int) bool {
		return !holds(rows.At(int(o.blocks[b][len(o.blocks[b])-1])))
	})
	for _, whole := range o.blocks[:block] {
		n += len(whole)
	}
	if block < len(o.blocks) {
		n += sort.Search(len(o.blocks[block]), func(i int) bool { return !holds(rows.At(int(o.blocks[block][i]))) })
	}
	return n
}

// seats appends the seats of a part of the order.
func (o *Index[R]) seats(to []int32, from, until int) []int32 {
	for _, block := range o.blocks {
		if from >= until {
			break
		}
		if from < len(block) {
			to = append(to, block[from:min(until, len(block))]...)
		}
		from, until = max(from-len(block), 0), until-len(block)
	}
	return to
}

// By groups rows by keys.
func By[R any](keys ...func(R) string) Index[R] { return Index[R]{by: keys} }

// ByTime is by, with the rows of a group sorted by a time.
func ByTime[R any](at func(R) time.Time, keys ...func(R) string) Index[R] {
	return Index[R]{by: keys, then: func(a, b R) int { return at(a).Compare(at(b)) }}
}
