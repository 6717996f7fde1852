package table

import (
	"math/bits"
	"slices"
)

// setChunk is how many numbers a chunk of a set has a bit for.
const setChunk = 1024

// RowSet is a set of the numbers of rows, which knows their order.
type RowSet struct {
	owner  *owner
	chunks []*rowChunk // nil where it would be empty
	N      int
}

type rowChunk struct {
	owner *owner
	words [setChunk / 64]uint64
}

// owned is the set itself or, where it is shared, a copy to write to.
func (s *RowSet) owned(by *owner) *RowSet {
	if s.owner == by && by != nil {
		return s
	}
	return &RowSet{owner: by, chunks: slices.Clone(s.chunks), N: s.N}
}

func (s *RowSet) has(n int) bool {
	at := n / setChunk
	return at < len(s.chunks) && s.chunks[at] != nil && s.chunks[at].words[n%setChunk/64]>>(n%64)&1 == 1
}

// set puts a number in or takes it out.
func (s *RowSet) set(n int, in bool) {
	if s.has(n) == in {
		return
	}
	at := n / setChunk
	for at >= len(s.chunks) {
		s.chunks = append(s.chunks, nil)
	}
	switch chunk := s.chunks[at]; {
	case chunk == nil:
		s.chunks[at] = &rowChunk{owner: s.owner}
	case chunk.owner != s.owner:
		s.chunks[at] = &rowChunk{owner: s.owner, words: chunk.words}
	}
	s.chunks[at].words[n%setChunk/64] ^= 1 << (n % 64)
	if s.N++; !in {
		s.N -= 2
	}
}

// And returns the numbers that are in both sets.
func (s *RowSet) And(other *RowSet) *RowSet {
	both := &RowSet{chunks: make([]*rowChunk, min(len(s.chunks), len(other.chunks)))}
	made := make([]rowChunk, len(both.chunks))
	for at := range both.chunks {
		if s.chunks[at] == nil || other.chunks[at] == nil {
			continue
		}
		both.chunks[at] = &made[at]
		for i, word := range s.chunks[at].words {
			made[at].words[i] = word & other.chunks[at].words[i]
			both.N += bits.OnesCount64(made[at].words[i])
		}
	}
	return both
}

// Or returns the numbers that are in one of the sets.
func (s *RowSet) Or(other *RowSet) *RowSet {
	if len(other.chunks) > len(s.chunks) {
		s, other = other, s
	}
	either := &RowSet{chunks: slices.Clone(s.chunks), N: s.N}
	for at, chunk := range other.chunks {
		if chunk == nil {
			continue
		}
		made := &rowChunk{}
		if s.chunks[at] != nil {
			made.words = s.chunks[at].words
		}
		for i, word := range chunk.words {
			either.N += bits.OnesCount64(word &^ made.words[i])
			made.words[i] |= word
		}
		either.chunks[at] = made
	}
	return either
}

// Numbers returns the numbers of the set between two places in its order.
func (s *RowSet) Numbers(from, to int) []int {
	found := make([]int, 0, to-from)
	place := 0
	for at, chunk := range s.chunks {
		if chunk == nil || place >= to {
			continue
		}
		for i, word := range chunk.words {
			if here := bits.OnesCount64(word); place+here <= from || place >= to {
				place += here
				continue
			}
			for ; word != 0 && place < to; word &= word - 1 {
				if place >= from {
					found = append(found, at*setChunk+i*64+bits.TrailingZeros64(word))
				}
				place++
			}
		}
	}
	return found
}

// owner has an identity: its address.
type owner struct{ _ byte }
